"""Readable dumps of what the network did with an event."""


def ranked(probs, keep=3):
    order = sorted(range(len(probs)), key=probs.__getitem__, reverse=True)[:keep]
    return " ".join(f"{slot}:{probs[slot]:.3f}" for slot in order)


def assignment_table(hits, logits, label):
    probs = logits.detach().softmax(-1).tolist()
    places = hits.tolist()
    truth = label.tolist()
    lines = []
    for event, (rows, where, slots) in enumerate(zip(probs, places, truth)):
        wrong = 0
        for number, (row, place, slot) in enumerate(zip(rows, where, slots)):
            best = row.index(max(row))
            wrong += best != slot
            mark = " " if best == slot else "*"
            lines.append(f"{event:4d} {number:3d} {mark} r={place[3]:.2f} "
                         f"({place[0]:+.3f}, {place[1]:+.3f}, {place[2]:+.3f}) -> {slot}  [{ranked(row)}]")
        lines.append(f"{event:4d} wrong {wrong} of {len(rows)}")
    return "\n".join(lines)
