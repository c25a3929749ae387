"""What if: the queue as it stands, reckoned on by the simulator, with a change and without.

told        the queue as it stands, as GET /scenario told it
changes     what is changed, and the queue after it
new_jobs    a job in thought, of which there is no request yet
runtimes    how long each job is assumed to run
forecast    the queue on its way through the next hours
comparison  where two forecasts differ
views       the answer as JSON
words       the answer as people read it
steps       the change, put into force step by step
"""

from slotq.simulate.whatif.changes import Change, NewJob, changed
from slotq.simulate.whatif.comparison import compared
from slotq.simulate.whatif.forecast import forecast
from slotq.simulate.whatif.told import Told
from slotq.simulate.whatif.views import WhatIfView

__all__ = ["Change", "NewJob", "Told", "WhatIfView", "changed", "compared", "forecast"]
