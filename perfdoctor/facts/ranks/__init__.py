"""Facts on the ranks of a job: who waits for whom, and what moving bytes takes."""
