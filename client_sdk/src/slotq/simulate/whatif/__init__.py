"""What if: forecasts of the present queue by the simulator, with a change and without.

forecast_input  a snapshot of the queue, from GET /scenario
named_settings  one setting of the document, by its path
changes     a change, the queue after it, and the steps that apply it
forecast    the queue in the next hours, and the assumed running times
costs       the dollars of two forecasts, by pool and kind
worlds      what becomes of each project's jobs in two forecasts
comparison  where two forecasts differ
answer      the answer as JSON and in words
"""

from slotq.simulate.whatif.answer import WhatIfView
from slotq.simulate.whatif.changes import MoreSlots, NewJob, WhatIfChange, changed
from slotq.simulate.whatif.comparison import compared
from slotq.simulate.whatif.forecast import forecast
from slotq.simulate.whatif.forecast_input import ForecastInput

__all__ = [
    "ForecastInput",
    "MoreSlots",
    "NewJob",
    "WhatIfChange",
    "WhatIfView",
    "changed",
    "compared",
    "forecast",
]
