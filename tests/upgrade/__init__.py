"""An update keeps the queue: this version works on tables that earlier versions wrote."""
