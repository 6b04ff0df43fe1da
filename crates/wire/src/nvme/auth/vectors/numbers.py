#!/usr/bin/env python3
"""Writes x.txt, y.txt and xy.txt: 2^x, 2^y and 2^(xy) modulo the prime of ffdhe2048, which is computed by RFC 7919's formula."""

LONGER = 1 << 2118
e, term, k = 0, LONGER, 0
while term:
    e, k = e + term, k + 1
    term //= k
p = 2**2048 - 2**1984 + ((e >> 200) + 560316) * 2**64 - 1
exponent = lambda step, first: int.from_bytes(bytes((step * i + first) & 255 for i in range(32)), "big") | 1 << 255
x, y = exponent(7, 200), exponent(11, 3)
for name, number in (("x", pow(2, x, p)), ("y", pow(2, y, p)), ("xy", pow(2, x * y, p))):
    text = f"{number:0512x}"
    with open(f"{name}.txt", "w") as out:
        out.writelines(text[at : at + 64] + "\n" for at in range(0, 512, 64))
