"""Runs the pages of the documentation, each from its first block to its last, as a reader would.

blocks  a page's blocks, in order, and the file that a block is the content of
shell   a shell, and how a block is cut into its statements
reader  a folder, a shell, a notebook, and an emulator
output  whether what a page shows is what was printed
worlds  what each page needs beforehand, and the blocks that run elsewhere, with the reason
page_files  files that pages need beforehand
checks  what is true of that which statements print
"""
