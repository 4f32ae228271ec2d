"""Types of the watched build of the token engine: the same functions."""

from _hwsim_core import Fault as Fault
from _hwsim_core import kinds as kinds
from _hwsim_core import run as run
