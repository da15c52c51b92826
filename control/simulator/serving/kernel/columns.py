"""What is where in the kernel's arrays. A row is one thing, so that what is used together lies together."""

# Sequences: one leg of a call at one instance. Row 2 · call is the whole or prefill leg, 2 · call + 1 the decode leg.
# After these columns come its nodes, one a stage, counted from the instance's first.
S_PHASE = 0
S_INSTANCE = 1
S_LEG = 2
S_ARRIVAL = 3  # rises with every request that an instance takes
S_RUN = 4  # 0: not admitted
S_GROUP = 5  # row in `groups`
S_BLOCKS = 6
S_POSITION = 7  # tokens in the KV cache
S_TOKENS = 8  # prompt and output so far
S_MOST = 9  # tokens in the cache when its last one is sampled
S_SAMPLED = 10
S_END = 11  # tokens when its output is whole
S_FLIGHT = 12  # step that it takes part in; 0: none
S_COUNT = 13  # its tokens in that
S_NEXT = 14  # by arrival: of those that wait, or of its group
S_PREVIOUS = 15
S_ALL_NEXT = 16  # all at its instance, by arrival
S_ALL_PREVIOUS = 17
S_NODES = 18

# Phases, as `agents.scheduler.sequence.Phase`; 0 is a row without a sequence.
ABSENT = 0
EXPECTED = 1
OFFERED = 2
COMING = 3
COMPUTED = 4
HELD = 5

WHOLE = 0
PREFILL = 1
DECODE = 2

# Calls: requests from their admission to their end.
C_REQUEST = 0
C_NEXT = 1  # by arrival; also the list of free rows
C_PREVIOUS = 2
C_PARKED = 3
C_PARKED_NEXT = 4
C_PARKED_PREVIOUS = 5
C_WIDTH = 6
CF_UNTIL_S = 0  # it may be parked; NaN: it is not
CF_UNITS_PER_S = 1  # at which its output was booked
CF_WIDTH = 2

I_PIPELINE = 0
I_ALIVE = 1
I_NODE_AT = 2  # first row in `nodes`
I_GROUP_AT = 3
I_MEMBER_AT = 4  # in `members`: groups x nodes
I_WAIT_HEAD = 5
I_WAIT_TAIL = 6
I_ALL_HEAD = 7
I_ALL_TAIL = 8
I_ALL = 9
I_RUNNING = 10
I_ARRIVALS = 11
I_DUE = 12  # an order is on the heap
I_USE_AT = 13  # in `use_s`
I_USE_FIRST = 14  # interval
I_USES = 15
I_APP = 16
I_ROOM = 17  # for requests, as gateways know it: `policies.room`
I_GROUPS = 18
I_LANES = 19  # its groups are lanes: it does prefill alone
I_WIDTH = 20

G_INSTANCE = 0
G_SIZE = 1
G_HEAD = 2
G_TAIL = 3
G_FLIGHT = 4
G_TOKENS = 5  # of prompts in it that are not computed yet
G_WIDTH = 6

# Nodes of instances: free KV blocks beside, and when each is free again.
NF_COMPUTE_S = 0  # its first part
NF_LAST_S = 1  # its last part: the same where it has one
NF_OUT_S = 2
NF_IN_S = 3
NF_PERIOD = 4  # of its quota, in which it computed last
NF_SPENT_S = 5  # processor time in that
NF_WIDTH = 6

P_DEPTH = 0
P_NODES = 1
P_STAGE_AT = 2  # in `stages`: depth + 1 rows
P_NODE_AT = 3  # in `limits`
P_BLOCK_TOKENS = 4
P_KIND_AT = 5  # in `kinds`
P_KINDS = 6
P_WIDTH = 7
PF_HAND_OFF_S = 0
PF_KV_BYTES = 1
PF_WIDTH = 2

ST_NODE = 0  # first node of the stage
ST_LAYER = 1
ST_WIDTH = 2

L_CAP = 0
L_CHUNK = 1
L_BLOCKS = 2
L_TABLE = 3
L_WIDTH = 4
LF_WEIGHT = 0
LF_HOP_S = 1
LF_HOP_S_PER_TOKEN = 2
LF_BYTES_PER_S = 3
LF_SHARE = 4
LF_PERIOD_S = 5
LF_WIDTH = 6

T_ROWS = 0
T_HEAD = 1
T_PROMPT_CONTEXT = 0
T_DECODE_CONTEXT = 1
TF_PROMPT_STEP = 0
TF_PROMPT_TOKEN = 1
TF_DECODE_STEP = 2
TF_REPLICAS = 3
TF_PARTS = 4
TF_BUSY_SHARE = 5
TF_WIDTH = 6

# Sums of a step over what a node does in it.
W_PROMPT_TOKENS = 0
W_PROMPT_CONTEXT = 1
W_REQUESTS = 2
W_CACHED = 3
W_SAMPLED = 4
W_START_S = 5
W_OUT_S = 6
W_WIDTH = 7

# Apps
A_KNOWN = 0  # the routing table has it
A_CONTEXT = 1
A_PARKED = 2  # calls
A_PARKED_HEAD = 3
A_PARKED_TAIL = 4
A_WIDTH = 5
AF_PROMPT_DONE_S = 0
AF_OUTPUT_DONE_S = 1
AF_PROMPT_PER_S = 2
AF_OUTPUT_PER_S = 3
AF_MEAN_OUTPUT = 4
AF_WIDTH = 5

# Registers
R_REQUEST = 0  # the next one to come
R_PENDING = 1  # call to be dispatched; -1: none
R_LOST = 2  # instance whose calls go on elsewhere; -1: none
R_WAKE = 3  # app whose parked calls are tried again; -1: none
R_WAKES = 4  # so many of them
R_ROOM = 5  # app of which other instances are full now; -1: none
R_HEAP = 6  # entries
R_RUNS = 7
R_STEPS = 8
R_FREE = 9  # first free call
R_OLDEST = 10
R_NEWEST = 11
R_OPEN = 12  # calls
R_WIDTH = 13
RF_NOW_S = 0

# Outcomes, and what else is kept of each request
O_OUTCOME = 0
O_PREFILL = 1
O_DECODE = 2
O_MADE = 3
O_RESTARTS = 4
O_PREEMPTIONS = 5
O_WIDTH = 6
OF_QUEUED_S = 0
OF_FIRST_S = 1
OF_ACCEPTED_S = 2
OF_HANDED_S = 3
OF_FINISH_S = 4
OF_WIDTH = 5

UNFINISHED = 0
SERVED = 1
REFUSED = 2
LOST = 3

# Events, by what goes first at one time
STEP = 2
ARRIVED = 3
STALE = 4
ORDER = 5
SEND = 6

# Why the kernel stops
REACHED = 0
DRY = 1  # a router's choices are needed for the pending call
ROOM = 2  # other instances of an app are full now
FULL = 3  # more room is needed in the arrays
