"""What keeps strangers out of the emulator.

guard             hosts and origins: keeps web pages out
authenticating    who signed a whole request, or its URL
signatures        checks Signature V4
chunk_signatures  bodies in signed chunks
"""
