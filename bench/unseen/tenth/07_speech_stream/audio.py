"""Small audio helpers: wav codec, log-mel features, noise and room augmentation."""
import io
import wave

import numpy as np
import torch
from scipy.signal import fftconvolve

SAMPLE_RATE = 16000
N_FFT = 512
HOP = 160
N_MELS = 64


def encode_wav(x):
    pcm = (np.clip(x, -1, 1) * 32767).astype(np.int16)
    buf = io.BytesIO()
    with wave.open(buf, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(SAMPLE_RATE)
        w.writeframes(pcm.tobytes())
    return buf.getvalue()


def decode_wav(raw):
    with wave.open(io.BytesIO(raw), "rb") as w:
        pcm = np.frombuffer(w.readframes(w.getnframes()), dtype=np.int16)
    return pcm.astype(np.float32) / 32768.0


def mel_filterbank(n_fft=N_FFT, n_mels=N_MELS, sr=SAMPLE_RATE, fmin=20.0, fmax=7600.0):
    def to_mel(f):
        return 2595.0 * np.log10(1.0 + f / 700.0)

    def to_hz(m):
        return 700.0 * (10.0 ** (m / 2595.0) - 1.0)

    pts = to_hz(np.linspace(to_mel(fmin), to_mel(fmax), n_mels + 2))
    freqs = np.linspace(0, sr / 2, n_fft // 2 + 1)
    left, mid, right = pts[:-2, None], pts[1:-1, None], pts[2:, None]
    up = (freqs - left) / (mid - left)
    down = (right - freqs) / (right - mid)
    return torch.from_numpy(np.maximum(0, np.minimum(up, down)).astype(np.float32))


class LogMel:
    def __init__(self):
        self.fb = mel_filterbank()
        self.window = torch.hann_window(N_FFT)

    def __call__(self, x):
        spec = torch.stft(torch.from_numpy(x), N_FFT, HOP, window=self.window,
                          return_complex=True).abs().pow(2)
        mel = torch.log(self.fb @ spec + 1e-6)
        return (mel - mel.mean()) / (mel.std() + 1e-5)


class RoomAndNoise:
    """Convolve with a random room response, then add noise at a random SNR."""

    def __init__(self, n_rooms=32, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(int(0.25 * SAMPLE_RATE)) / SAMPLE_RATE
        self.rooms = []
        for _ in range(n_rooms):
            rt = rng.uniform(0.08, 0.4)
            h = rng.standard_normal(t.size) * np.exp(-6.9 * t / rt)
            h[0] = 4.0
            self.rooms.append((h / np.linalg.norm(h)).astype(np.float32))

    def __call__(self, x, rng):
        h = self.rooms[rng.integers(len(self.rooms))]
        y = fftconvolve(x, h)[: x.size].astype(np.float32)
        snr = rng.uniform(5, 25)
        noise = rng.standard_normal(y.size, dtype=np.float32)
        scale = np.sqrt((y ** 2).mean() / (10 ** (snr / 10)) + 1e-9)
        return y + scale * noise
