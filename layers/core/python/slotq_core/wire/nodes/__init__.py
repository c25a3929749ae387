"""Nodes (without pydantic).

documents   orders to nodes and reports from them
node_rules  how a pool keeps nodes, as people write it
"""
