ATOMS = ["C", "N", "O", "S", "F", "Cl", "Br", "P", "c", "n", "o", "s", "[nH]", "[O-]", "[N+]"]
MARKS = ["(", ")", "=", "#", "1", "2", "3", "/", "\\", "@"]
SPECIAL = ["<mask>", "<sep>"]


class Vocab:
    def __init__(self):
        self.items = SPECIAL + ATOMS + MARKS
        self.ids = {t: i for i, t in enumerate(self.items)}
        self.mask, self.sep = 0, 1

    def __len__(self):
        return len(self.items)

    def encode(self, pieces):
        return [self.ids[p] for p in pieces]
