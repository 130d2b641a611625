"""Settings of all compiled functions: `npcompile.config.fallback_random = False`. Programs made under others are not used."""

# Are random numbers of np.random in compiled functions NumPy's own streams? False: those that the graph can compute by itself
# (see docs/random.md) come from a counter-based generator, which takes one number of the user's as its key.
fallback_random: bool = True
