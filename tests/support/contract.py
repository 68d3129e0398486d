"""What perfdoctor owes to the script that it watches, row by row: docs/reliability.md is drawn from here.

A test that shows a row carries the mark `shows` with the row's name. A row that no test shows says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """A row: the case, what the user sees of it, and what perfdoctor does."""

    name: str  # as the mark of a test gives it
    case: str
    user: str
    ours: str
    stand_in: str = ""  # what the tests put in the place of the real thing
    missing: str = ""  # what is not there or not shown, and why


@dataclass(frozen=True)
class Part:
    """A table of the page."""

    title: str
    about: str
    rows: tuple[Promise, ...]


@dataclass(frozen=True)
class Attack:
    """A script of bench/ that does at length what tests do briefly, and what came of its last time."""

    command: str
    does: str
    found: str


SAME = Part(
    "What stays as it is",
    "Whatever the script does, it does as without perfdoctor.",
    (
        Promise(
            "exit-status",
            "How the command ends",
            "The same exit status, or death by the same signal: after `sys.exit`, `os._exit`, `exec`, an abort, a segfault.",
            "Ends itself in the same way, also where its own report fails.",
        ),
        Promise(
            "streams",
            "Standard output and error",
            "The script's own bytes and nothing between them.",
            "Writes to stderr only: a live line on a terminal (a few with `--live`) and the report at the end, or with `-q` a single line. "
            "Nothing of it in the script's process writes to either.",
        ),
        Promise(
            "surroundings",
            "What a script can find out about itself",
            "Arguments, `sys.path`, `__main__` and its spec, working folder, umask, signals, open files, flags, modules, "
            "tracebacks, and the parameters that torch's functions say they have are the same.",
            "Starts the real interpreter with one folder more in `PYTHONPATH` and one variable, `PERFDOCTOR_RUN`. From torch's "
            "import on, modules called `_perfdoctor` are loaded, and the call of a module takes one Python frame more, as do the "
            "calls around which datasets are read: a network or a dataset that calls itself to the limit of recursion reaches it "
            "earlier. From the first window on a CUDA device on, `TEARDOWN_CUPTI` is 1 where it was not set.",
        ),
        Promise(
            "terminal",
            "Terminal and standard input",
            "The script's: `isatty`, the window's size, `input()`, pipes.",
            "Reads nothing from them. `run --live` reads keys only where the script's input is no terminal.",
        ),
        Promise(
            "job-control",
            "Keys and job control",
            "Ctrl-C, Ctrl-\\ and Ctrl-Z mean what they mean; `fg` goes on.",
            "Stays in the script's process group and session, and leaves keys to the terminal, which sends them to both.",
        ),
        Promise(
            "randomness",
            "Random numbers and results",
            "Losses and parameters are the same to the last bit.",
            "Draws from no generator of Python, NumPy or torch.",
        ),
        Promise(
            "guest",
            "Device, threads, modules",
            "CUDA is initialised when the script does it; `set_start_method` and forks work as ever.",
            "Loads nothing before torch, never waits for the device outside a window, starts no thread before a fork could come "
            "that it does not end for it.",
            stand_in="a torch that answers as one with a device",
            missing="`tests/gpu/` asks a real device whether it is waited for; it is skipped without one",
        ),
        Promise(
            "cost",
            "What watching costs",
            "Microseconds a step, and windows within 1 % of the run's time; the report prints both as measured.",
            "Measures its own calls in the process, pays windows out of a budget, samples more rarely as a run gets long.",
            missing="watched and bare runs are compared by `bench/overhead.py`, not by a test: [Overhead](overhead.md)",
        ),
        Promise(
            "own-failure",
            "A fault of perfdoctor's own",
            "The script goes on and ends with its own status.",
            "What failed turns itself off, the rest of the report is made, and one line says so: `perfdoctor bug` packs it up.",
        ),
        Promise(
            "no-network",
            "Network",
            "No connection, no open port, no telemetry.",
            "Makes no internet socket, in any process (`perfdoctor net`, which measures the link, apart).",
        ),
        Promise(
            "no-other-writes",
            "Files",
            "Nothing appears beside the script but `.perfdoctor/`.",
            "Writes to the run directory, and to small files of the user's own of three kinds: how this machine shares its"
            " cores (cache folder), the history of trials (data folder), and the last failure of perfdoctor itself"
            " (state folder).",
        ),
    ),
)

ENDS = Part(
    "How scripts end",
    "",
    (
        Promise(
            "raises",
            "The script raises",
            "Its traceback without a frame of ours, status 1.",
            "Reports on the steps that were made, and says `failed with 1`. The text of the error is not kept.",
        ),
        Promise(
            "exits",
            "`sys.exit` with a number, words, nothing",
            "The same status and words.",
            "Reports as ever, with the status.",
        ),
        Promise(
            "os-exit",
            "`os._exit`",
            "The same status.",
            "Loses no step: each was in its file when it ended.",
        ),
        Promise(
            "exec",
            "The process becomes another program",
            "The status is that of the last program.",
            "Follows into the new program. One that trains, too, gets files of its own, and the longer training is shown.",
            missing="a third training in one process id is not recorded: nobody was seen to need it",
        ),
        Promise(
            "interrupt",
            "Ctrl-C",
            "The script gets it once and ends as it does alone.",
            "Sends nothing a second time, waits for the end, reports, and dies by the same signal if the script did.",
        ),
        Promise(
            "interrupt-twice",
            "Ctrl-C again",
            "The script gets each one; once it has ended, Ctrl-C ends the report.",
            "Never ends before the script. A report that was interrupted leaves the run and the line to type for it.",
        ),
        Promise(
            "terminate",
            "SIGTERM to perfdoctor, as a scheduler sends it",
            "The script gets it once, and takes the time it needs for a checkpoint.",
            "Passes it on, waits without a limit of its own, reports, ends in the same way.",
        ),
        Promise(
            "terminate-group",
            "A signal to the whole group",
            "The script gets it once, from the sender: a handler that saves and exits does so.",
            "A process of its own in the group hears whether a signal was for the group. Such a one is not passed on.",
        ),
        Promise(
            "other-signals",
            "SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT",
            "Handlers of the script's own hear each once, and what they raise reaches the script; a signal that the caller ignores "
            "stays ignored.",
            "Passes them on. An error that a handler raises while code of ours runs is handed to the script.",
        ),
        Promise(
            "suspend",
            "Ctrl-Z, then `fg`",
            "Both stop, the shell has its prompt; `fg` goes on with both.",
            "A pause is no hang.",
            missing="the report does not name a pause: it counts as a part of the step in which it came",
        ),
        Promise(
            "killed",
            "SIGKILL, the kernel's or a scheduler's for memory",
            "Status 137, or signal 9.",
            "Survives it, reports on all steps up to the last one that ended, says `ended by SIGKILL`, and that the"
            " kernel killed for want of memory meanwhile, where it did.",
            stand_in="the kernel's count of such kills",
        ),
        Promise(
            "perfdoctor-killed",
            "perfdoctor itself is killed",
            "The script goes on unharmed, to its own end.",
            "Helpers end with it; the run stays readable, its end unknown.",
        ),
    ),
)

SCRIPTS = Part(
    "What scripts are",
    "",
    (
        Promise(
            "no-script",
            "No such script",
            "The interpreter's own message and status 2.",
            "Leaves no run behind.",
        ),
        Promise(
            "fails-early",
            "A syntax error, or an import that fails",
            "The same message, status 1.",
            "Says that no step was seen, and why: torch was never imported, or nothing trained.",
        ),
        Promise(
            "no-torch",
            "A script without torch",
            "Nothing changes.",
            "Says so, and advises nothing.",
        ),
        Promise(
            "no-training-loop",
            "No optimizer: inference, updates by hand",
            "Nothing changes.",
            "Counts what there is: backward calls, else calls of the model, else batches; says which. With none of them, there is "
            "no verdict.",
        ),
        Promise(
            "no-loader",
            "No DataLoader: tensors, iterators of other libraries",
            "Nothing changes.",
            "Measures steps and phases; time that no loader explains is `other`.",
            missing="no wait for data is inferred where no loader tells of one",
        ),
        Promise(
            "many-optimizers",
            "Several optimizers, accumulation, closures, skipped steps",
            "Nothing changes.",
            "A step is what the script would call one: a pair of a GAN, all micro-steps of an update, one call of a closure.",
        ),
        Promise(
            "own-profiler",
            "The script uses torch.profiler",
            "All its events, nothing of ours.",
            "Closes its own window first, opens none while the script's is prepared, goes on behind it.",
        ),
        Promise(
            "other-tools",
            "Older profilers, cProfile, `-X importtime`, other readers of the device",
            "They work as ever; a list of imports, and a profile of what comes before torch, has one line of ours in it.",
            "Sets no trace or profile function where one is set; records windows of the CPU alone beside a tool that reads "
            "the device.",
            stand_in="for tools that read the device, their variables",
        ),
        Promise(
            "compile",
            "`torch.compile`",
            "As many graphs, frames and breaks as without.",
            "Steps aside where the compiler looks; the first steps count as the start.",
        ),
        Promise(
            "cuda-graphs",
            "CUDA graphs",
            "A capture goes through.",
            "Copies nothing while a graph is captured.",
            stand_in="a torch that says that it captures",
            missing="captures around a window of the profiler were not tried on a device: [GPUs](gpu.md)",
        ),
        Promise(
            "worker-crash",
            "A loader worker is killed",
            "torch's own error and traceback, the same status.",
            "Reports what was recorded; a `/dev/shm` that is nearly full is a finding of its own.",
        ),
        Promise(
            "dataset-raises",
            "A dataset raises, in a worker or not",
            "The same traceback, line by line.",
            "Takes its frame out of tracebacks (Python 3.11 and newer).",
        ),
        Promise(
            "fork",
            "Forks: workers, children that train",
            "They run and end as ever, also out of a window.",
            "A child shares no file with its parent; it stops nothing that the parent began.",
        ),
        Promise(
            "spawn",
            "Workers and pools by spawn or forkserver",
            "They work, classes in `__main__` included.",
            "Follows them by itself.",
        ),
        Promise(
            "subprocess",
            "Children by `subprocess`",
            "Nothing changes.",
            "Follows those that run Python; a tool is neither a worker nor a rank.",
        ),
        Promise(
            "other-interpreter",
            "Another Python, another environment, conda",
            "It starts as ever, whatever its version.",
            "Takes the interpreter of the active environment. The first file reads in Python 3.6 and stays away below 3.8; "
            "nothing needs to be installed there.",
            stand_in="for conda, its folders and variables",
        ),
        Promise(
            "kept-out",
            "`-I`, `-E`, `-S`, an environment that was emptied",
            "Nothing changes.",
            "Cannot get in, says why and what to type instead. `PYTHONSAFEPATH` and `-P` are no obstacle.",
        ),
        Promise(
            "notebook",
            "Notebooks",
            "One sentence: a notebook is not a script, and how to convert it.",
            "Refuses a `.ipynb`.",
            missing="watching from inside a notebook: planned, since a kernel starts long before anybody asks to watch",
        ),
        Promise(
            "frameworks",
            "Lightning, the Transformers trainer, Accelerate",
            "Nothing to add: no callback, no wrapper.",
            "Sees their steps where they call torch.",
            missing="Lightning's own start of several processes, and Keras on torch: not tried",
        ),
    ),
)

RANKS = Part(
    "Several ranks",
    "",
    (
        Promise(
            "rank-dies",
            "A rank of torchrun dies",
            "The launcher's own output and status.",
            "Names the rank that failed first, with its own status or signal; the others are those that were ended for it.",
        ),
        Promise(
            "windows-of-ranks",
            "Windows of ranks that wait for each other",
            "No rank is held up alone.",
            "All ranks open the same windows at the same steps; the lowest decides, through a file.",
        ),
        Promise(
            "several-nodes",
            "Several hosts; launchers that pass on `PYTHONPATH` alone",
            "Nothing changes.",
            "Finds the run by the folder that it was injected from; joins the folders of the hosts.",
            stand_in="processes of one host with the environment that such launchers leave",
        ),
    ),
)

PLACES = Part(
    "Where it runs",
    "",
    (
        Promise(
            "disk-full",
            "The disk is full, at the start or under way",
            "Training goes on; one line says it.",
            "Stops recording, keeps room for how the run ended, and says from when on something is missing.",
            stand_in="for a disk that fills up under way, a system that refuses blocks; a small file system where mounting is allowed",
        ),
        Promise(
            "nowhere-to-write",
            "The working folder is read-only, or gone; no home",
            "The command runs; one line says where its run is kept.",
            "Goes from `.perfdoctor` here to the user's state folder to a private one in the temporary folder; with none of them, "
            "watches nothing.",
            stand_in="for a user without a name, a system that knows none; a read-only file system where mounting is allowed",
        ),
        Promise(
            "damaged-run",
            "A run directory that is cut off or damaged",
            "A report that says what is missing, or one sentence.",
            "Leaves out what cannot be read and counts it; never contradicts what the whole run would say.",
        ),
        Promise(
            "damaged-trace",
            "A trace that is cut off or no valid JSON",
            "The page, and how many events are missing.",
            "Mends what can be mended, uses whole events, refuses what is no trace in one sentence.",
        ),
        Promise(
            "huge-trace",
            "A huge trace",
            "A sentence and the option that raises the limit.",
            "Records no window that would be too large, and reads other traces in blocks.",
        ),
        Promise(
            "odd-names",
            "Names that are no UTF-8, blanks, quotes, markup; locale C; very long command lines",
            "The script gets every byte as it was typed.",
            "Keeps and shows them with escapes.",
            missing="windows of the profiler where the path of the run is no UTF-8: torch saves to no such path",
        ),
        Promise(
            "closed-output",
            "Closed output, a reader that went away",
            "The script's own affair: the same error or none.",
            "Writes where it can, keeps the report, and keeps the script's status.",
        ),
        Promise(
            "plain-terminal",
            "No terminal, `TERM=dumb`, `NO_COLOR`, narrow, ASCII",
            "Plain text of 80 columns, or as wide as the terminal.",
            "No colours, no live line, every sign spelled out where it has to be.",
        ),
        Promise(
            "no-nvml",
            "NVML is missing, mismatched, forbids or hangs; MIG",
            "Nothing changes.",
            "What cannot be read is unknown with its reason, never zero. A driver that never answers holds up neither the command "
            "nor the other samplers.",
            stand_in="a module that answers as NVML does",
        ),
        Promise(
            "visible-devices",
            "`CUDA_VISIBLE_DEVICES`: numbers, UUIDs, MIG",
            "Nothing changes.",
            "Samples the devices that the run sees, by UUID; numbers among unlike devices only in bus order.",
            stand_in="a module that answers as NVML does",
        ),
        Promise(
            "no-stacks",
            "Nobody may look into the process",
            "Nothing changes.",
            "Asks the process for samples of its own after a second refusal, and says so.",
        ),
        Promise(
            "container",
            "Containers: quotas, cpusets, a `/proc` with holes",
            "Nothing changes.",
            "Reads the group's own limits, version 1 and 2; what cannot be read is unknown.",
            stand_in="trees of files as the kernel shows them",
        ),
        Promise(
            "versions",
            "Other versions of Python and torch, WSL, macOS",
            "Nothing changes. On any other system, one sentence: Linux and macOS, and WSL on Windows.",
            "What a version lacks turns itself off; stacks are recorded only with versions known to bear it. Continuous integration "
            "runs the tests on every Python named, and those of the probe on torch 2.4, 2.6 and 2.8; [Versions](versions.md) has what is coarser there. Under WSL, where the profiler sees no kernel, operators are timed on the CPU and the "
            "report says why. Without `/proc` and py-spy, the process samples its own stacks.",
            stand_in="for WSL, the name of its kernel; for macOS, a system whose `/proc`, affinity and py-spy are taken away",
            missing="nightlies and free-threaded builds: features are looked for, the versions not run",
        ),
        Promise(
            "long-and-many",
            "Runs at once, clocks that jump, runs of hours",
            "Nothing changes.",
            "Each run has its own folder. Durations come from a clock that never jumps. Rows are put together and samples grow "
            "rarer, so that files stay small.",
            stand_in="for hours, the counts that they would bring; for a jump, another time of day",
        ),
    ),
)

TRIALS = Part(
    "Trials and measurements",
    "What `try`, `loader` and `net` start is theirs to end; what `run` starts is not.",
    (
        Promise(
            "trial-killed",
            "`perfdoctor try` is killed, also while it waits or rests",
            "Nothing of it goes on running, and no port is held.",
            "A guard ends what was executed when perfdoctor is gone. What a guard left that was killed too, the next trial ends; "
            "trials that others still execute stay.",
        ),
        Promise(
            "budgets",
            "`--seconds` of `run`, `try`, `loader` and `net`",
            "Kept within a quarter, the starts of interpreters apart; what did not fit is said, with the time that it takes.",
            "Begins nothing that would not end in time. `run` stops watching and leaves the script alone without `--stop`.",
        ),
    ),
)

SECURITY = Part(
    "Secrets and hostile input",
    "SECURITY.md says what is kept, and where the net has holes.",
    (
        Promise(
            "secrets",
            "Secrets in arguments, environment, source, errors",
            "Neither kept nor shown.",
            "Keeps a fixed list of variables and replaces what looks like a secret before anything is written.",
        ),
        Promise(
            "html",
            "Hostile names in the HTML report",
            "They stay text.",
            "A policy that allows the page's own scripts and styles by their hashes and nothing else, everything escaped.",
        ),
        Promise(
            "hostile-files",
            "Run directories and traces of others",
            "Data: nothing is executed.",
            "Unpickles and evaluates nothing, waits for no pipe or device, bounds what it reads.",
        ),
        Promise(
            "private-files",
            "Other users of the machine",
            "They can neither read a run nor lead it elsewhere.",
            "Folders 0700, files 0600; follows no link of another user's, and no folder in the temporary one that others could change.",
        ),
        Promise(
            "trial-leaves-files",
            "`perfdoctor try` and your files",
            "They stay as they are.",
            "Runs the command as typed, with its writes kept apart. Where that cannot be done, it starts nothing unless `--yes` is given.",
        ),
        Promise(
            "sockets",
            "Sockets",
            "None is open.",
            "The HTML report asks for nothing either. There is no server.",
        ),
        Promise(
            "terminal-text",
            "Names that could steer a terminal",
            "They are shown as escapes.",
            "Takes control characters, text direction and markup out of all text of the user's.",
        ),
    ),
)

PARTS = (SAME, ENDS, SCRIPTS, RANKS, PLACES, TRIALS, SECURITY)
PROMISES = {row.name: row for part in PARTS for row in part.rows}

ATTACKS = (
    Attack(
        "bench/chaos.py",
        "Kills the script, perfdoctor, its py-spy, a loader worker or a rank, at moments drawn at random. Asked for are 200 rounds.",
        "200 rounds (`--seed 29`): no other exit status, no step lost but those of the last second, and nothing went on running. "
        "After one of 130 earlier rounds, a process still ran; most likely a loader worker whose rank was killed while it started "
        "it, which lives on in a bare training as well.",
    ),
    Attack(
        "bench/killed.py",
        "Kills `perfdoctor try` with loader workers, a process in a session of its own and a port; every fourth time the guard as well.",
        "50 trials killed, with 194 processes; 37 were ended by the next trial, none was left. Once a port was not free two seconds "
        "later, which eight repeats did not show again.",
    ),
    Attack(
        "bench/fuzz.py",
        "Damages one file of a run, trace, trial or measurement, by structure or by bytes, and reads it; judges, draws and writes what "
        "reads as none before, and some of the rest. Asked for are 1,000,000 files.",
        "168,339 files read (`--inputs 1000000 --jobs 2 --seed 5 --every 200 --most 20`, ended by hand on a machine with other work), 96,979 "
        "of them in runs; 24,932 were refused, 124,652 read as something else than the undamaged file, 4,348 "
        "were judged, drawn and written. Three were unexpected: twice a job of more ranks than there is memory for, once an exchange that "
        "took no time. Both are mended, and those three inputs are refused or read since. 115,900 files since then (`--most 50`, `--seed 101` "
        "and `--seed 202`, ended by hand as well) brought nothing unexpected, of which 1,779 were judged. "
        "Another 560,003 (`--inputs 560000 --jobs 2 --every 200 --most 50 --seed 303`, 20 minutes of two quiet cores), of which 6,283 were judged, brought "
        "seven in three places: processes of a damaged sample in a job of ranks, sizes that no tensor has, more workers than memory holds. "
        "All are mended, and those inputs are read since. 17,500 earlier files were all judged.",
    ),
)
