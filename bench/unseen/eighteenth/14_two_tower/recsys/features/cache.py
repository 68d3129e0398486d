from collections import OrderedDict


class LruCache:
    def __init__(self, rows):
        self.rows, self.data = rows, OrderedDict()
        self.hits = self.misses = 0

    def get_or(self, key, build):
        if key in self.data:
            self.hits += 1
            self.data.move_to_end(key)
            return self.data[key]
        self.misses += 1
        value = self.data[key] = build()
        if len(self.data) > self.rows:
            self.data.popitem(last=False)
        return value
