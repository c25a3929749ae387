"""An update keeps the queue: tables that earlier versions wrote, and this version over them."""
