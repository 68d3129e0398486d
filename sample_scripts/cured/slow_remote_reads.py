"""Weather maps are fetched from a tile server over HTTP; each worker keeps its connection."""

import argparse
import http.client
import multiprocessing
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 64
GREETING_S = 0.012  # what agreeing on a connection takes between two cities
ANSWER_S = 0.001


class TileHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer leaves at once, not after the next acknowledgement

    def setup(self):
        super().setup()
        time.sleep(GREETING_S)

    def do_GET(self):
        time.sleep(ANSWER_S)
        random = np.random.default_rng(int(self.path.strip("/")))
        tile = random.integers(0, 255, (SIDE, SIDE), dtype=np.uint8).tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(tile)))
        self.end_headers()
        self.wfile.write(tile)

    def log_message(self, *args):
        pass


def serve(port):
    server = ThreadingHTTPServer(("127.0.0.1", 0), TileHandler)
    server.daemon_threads = True
    port.send(server.server_port)
    server.serve_forever()


class Tiles(Dataset):
    """The tiles of a map; whether it rains follows from the mean."""

    def __init__(self, port, count):
        self.port, self.count = port, count
        self.connection = None

    def __len__(self):
        return self.count

    def fetch(self, number):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.connection.request("GET", f"/{number}")
        return self.connection.getresponse().read()

    def __getitem__(self, number):
        tile = torch.frombuffer(bytearray(self.fetch(number)), dtype=torch.uint8)
        tile = tile.view(1, SIDE, SIDE).float() / 255
        return tile, (tile.mean() > 0.5).float()


def train(port, args):
    loader = DataLoader(Tiles(port, args.tiles), batch_size=8, shuffle=True, num_workers=2)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.LazyLinear(1)
    )
    model(torch.zeros(1, 1, SIDE, SIDE))
    optimizer = torch.optim.Adam(model.parameters())
    for step, (tiles, rain) in enumerate(loader, 1):
        loss = nn.functional.binary_cross_entropy_with_logits(model(tiles).squeeze(1), rain)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=800)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        train(ours.recv(), parser.parse_args())
    finally:
        server.terminate()
