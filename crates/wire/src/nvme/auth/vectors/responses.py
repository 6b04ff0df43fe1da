#!/usr/bin/env python3
"""Writes responses.txt: responses of DH-HMAC-CHAP by the formula of the NVM Express Base Specification 2.0, 8.13.5.

hash, who answers, whether there is a shared key, the secret, the response."""
import base64, hashlib, hmac, itertools, zlib

HASHES = {1: hashlib.sha256, 2: hashlib.sha384, 3: hashlib.sha512}
HOST, DRIVE = b"nqn.a:host", b"nqn.b:drive"
print("# hash, who, shared, secret, response: written by responses.py")
for number, who, shared, kind in itertools.product(HASHES, ("host", "controller"), ("none", "bytes"), range(4)):
    hash = HASHES[number]
    length = {0: 32, 1: 32, 2: 48, 3: 64}[kind]
    secret = bytes((13 * i + kind) & 255 for i in range(length))
    text = base64.b64encode(secret + zlib.crc32(secret).to_bytes(4, "little")).decode()
    own, other = (HOST, DRIVE) if who == "host" else (DRIVE, HOST)
    role = b"HostHost" if who == "host" else b"Controller"
    key = secret if kind == 0 else hmac.new(secret, own + b"NVMe-over-Fabrics", HASHES[kind]).digest()
    challenge = bytes(i ^ 0x5A for i in range(hash().digest_size))
    if shared == "bytes":
        challenge = hmac.new(hash(bytes(range(256))).digest(), challenge, hash).digest()
    said = challenge + (0x89ABCDEF).to_bytes(4, "little") + (0x1234).to_bytes(2, "little") + b"\0"
    said += role + own + b"\0" + other
    print(number, who, shared, f"DHHC-1:{kind:02}:{text}:", hmac.new(key, said, hash).hexdigest())
