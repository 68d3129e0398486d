"""What this machine can do: its cores shared by two programs, its link, its network cards."""
