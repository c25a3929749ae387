"""The pure core: a snapshot and a moment in, a plan out. Begin with `cycle`."""
