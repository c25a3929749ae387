"""What keeps strangers out of the emulator.

guard             hosts and origins: keeps web pages out
authenticating    who signed a whole request
signatures        checks Signature V4
chunk_signatures  bodies in signed chunks
presigned         URLs that carry their signature
"""
