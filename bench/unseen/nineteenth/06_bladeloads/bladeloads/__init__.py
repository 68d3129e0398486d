"""Conditional GAN for flapwise root bending moments of turbine blades."""
