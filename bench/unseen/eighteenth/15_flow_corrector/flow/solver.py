from .linear import diffusion, poisson


class CoarseSolver:
    """Vorticity form: explicit transport, implicit diffusion, streamfunction from a Poisson problem."""

    def __init__(self, grid, nu, dt):
        self.grid, self.dt = grid, dt
        self.streamfunction = poisson(grid)
        self.diffuse = diffusion(grid, nu, dt)

    def velocity(self, w):
        psi = self.streamfunction(-w)
        return self.grid.ddy(psi), -self.grid.ddx(psi)

    def step(self, w, source=None):
        u, v = self.velocity(w)
        rate = -(u * self.grid.ddx(w) + v * self.grid.ddy(w))
        if source is not None:
            rate = rate + source
        return self.diffuse(w + self.dt * rate), (u, v)
