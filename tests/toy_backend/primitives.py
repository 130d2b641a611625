"""The toy's text for primitives: Python, of arrays."""

PRIMITIVES = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "negative": "-{}",
    **{name: f"np.{name}({{}})" for name in ("exp", "expm1", "log", "log1p", "sqrt", "square", "absolute")},
}
