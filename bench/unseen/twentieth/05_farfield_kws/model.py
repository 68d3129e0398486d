from torch import nn

from frontend import LogMel


class Block(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(c_in, c_out, 9, stride, 4, bias=False), nn.BatchNorm1d(c_out), nn.ReLU(inplace=True),
            nn.Conv1d(c_out, c_out, 9, 1, 4, bias=False), nn.BatchNorm1d(c_out),
        )
        self.skip = nn.Identity() if c_in == c_out and stride == 1 else nn.Conv1d(c_in, c_out, 1, stride)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.body(x) + self.skip(x))


class TemporalResNet(nn.Module):
    def __init__(self, mels, channels, classes, sr):
        super().__init__()
        self.frontend = LogMel(mels, sr)
        c = channels
        self.stem = nn.Conv1d(mels, c, 3, padding=1)
        self.blocks = nn.Sequential(
            Block(c, c, 1), Block(c, 2 * c, 2), Block(2 * c, 2 * c, 1), Block(2 * c, 3 * c, 2), Block(3 * c, 3 * c, 1)
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(3 * c, classes))

    def forward(self, wave):
        return self.head(self.blocks(self.stem(self.frontend(wave))))
