"""What may be kept of a command line, an environment and other text: no passwords, keys or tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from perfdoctor.redaction import secret_looks as looks
from perfdoctor.redaction.secret_literals import under_secret_names
from perfdoctor.redaction.secret_looks import KeptValues

REDACTED = "<redacted>"
VALUE_CHARACTERS = 200  # of an environment value: enough for a device list or an allocator's settings
LONGEST_URL = 500  # characters in which its beginning is looked for
SHORTEST_KNOWN = 6  # characters of a secret that is looked for in other text; shorter ones are in any text

_WHOLE = re.compile(rf"({looks.NAME})=(.*)", re.DOTALL)
_ASSIGNMENT = re.compile(rf"(?<![\w.-])({looks.NAME})([\"']?[ \t]{{0,20}}(?:=>|[=:])[ \t]{{0,20}})(?!//)")
_OPTION = re.compile(r"(?<![\w.-])(--?[A-Za-z][\w.-]{0,99})([ \t]{1,20})(?!-)")
_PROSE = re.compile(
    r"\b(password|passphrase|passwd|secret|token|api[ _-]?key|credentials?|bearer|basic)"
    r"((?:\s{1,9}(?:is|was|of))?\s{1,9})",
    re.IGNORECASE,
)
_VALUE = re.compile(r"(\{[^{}\n]*\})|\"([^\"\n]*)\"?|'([^'\n]*)'?|([^\s\"'&;,})\]#]+)")
_QUERY_VALUE = re.compile(r"([^\s\"'&;#]+)")
_HEADER_VALUE = re.compile(r"([^\"'\n]+)")
_HEADERS = ("authorization", "cookie")
# A password may have a slash in it; `host:80/path@version` is none.
_URL_USER = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,20}://)([^/\s\"']{1,300}|[^/\s\"':@]{0,100}:(?!\d{1,5}/)[^\s\"'@]{1,300})@",
    re.IGNORECASE,
)
_WEB = re.compile(r"\b(?:https?|wss?)://[^\s\"']*$", re.IGNORECASE)
# What is escaped outside of texts begins none: where each did, many of them would take an hour.
_LITERAL = re.compile(r"\\.|\"(?:[^\"\n\\]|\\.)*\"|'(?:[^'\n\\]|\\.)*'")
_ATTACHED = re.compile(r"-p([^=]+)")  # mysql's -pPASSWORD
_USER_ATTACHED = re.compile(r"-u([^=]+)")  # curl's -uNAME:PASSWORD
_SHELLS_COMMAND = "-c"  # the word behind it is a command line

_KEPT_NAMES = re.compile(
    r"(CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING)|(HIP|ROCR)_VISIBLE_DEVICES"
    r"|(OMP|MKL|KMP|OPENBLAS|NUMEXPR|GOMP|NCCL|GLOO|TORCH|PYTORCH|TORCHINDUCTOR|TORCHDYNAMO|CUBLAS|CUDNN|NVIDIA_TF32)_\w+"
    r"|MALLOC_\w+|LD_PRELOAD|(LOCAL_)?(WORLD_SIZE|RANK)|SLURM_(JOB_ID|NTASKS|CPUS_PER_TASK|NNODES)"
    r"|PYTHON(OPTIMIZE|HASHSEED|MALLOC|UNBUFFERED|DEVMODE|GIL|FAULTHANDLER)|TOKENIZERS_PARALLELISM)"
)
_SECRET_PART = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)


def command(words: Sequence[str]) -> list[str]:
    """The words of a command line with every value that looks like a secret replaced."""
    return _Redaction().command(words)


def text(value: str, known: Iterable[str] = ()) -> str:
    """One string with every secret in it replaced, and each that is `known` wherever it stands."""
    for secret in sorted(known, key=len, reverse=True):
        value = value.replace(secret, REDACTED)
    return _Redaction().text(value)


def source(lines: str) -> str:
    """Source code with secrets in its literals replaced; what is no secret's value stays valid code."""
    return _Redaction().source(lines)


def secrets(words: Sequence[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Values of a command line and an environment that are secrets, to be looked for in other text."""
    redaction = _Redaction()
    redaction.command(words)
    for name, value in environ.items():
        if not looks.stays(value, looks.kept(name)):
            redaction.hide(value)
        else:
            redaction.text(value)
    return frozenset(
        found
        for found in redaction.found
        if len(found) >= SHORTEST_KNOWN and not looks.stays(found, KeptValues.NUMBERS)
    )


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter for speed; everything else stays unread."""
    names = sorted(name for name in environ if _KEPT_NAMES.fullmatch(name))
    allowed = (name for name in names if name == "TOKENIZERS_PARALLELISM" or not _SECRET_PART.search(name))
    return {name: text(environ[name])[:VALUE_CHARACTERS] for name in allowed}


class _Redaction:
    """Replaces secrets and remembers them."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def hide(self, value: str) -> str:
        self.found.add(value)
        return REDACTED

    def command(self, words: Sequence[str]) -> list[str]:
        kept: list[str] = []
        before = ""
        for word in words:
            kept.append(self._word(word, before))
            before = word
        return kept

    def _word(self, word: str, before: str) -> str:
        """One word of a command line, behind the word `before`."""
        if before.startswith("-") and "=" not in before and before != _SHELLS_COMMAND:
            level = looks.kept(before)
            begins_with_dash = word.startswith("--") or (
                word.startswith("-") and level is not KeptValues.SWITCHES
            )
            if not begins_with_dash and not _stays(before, word, level):
                return self.hide(word)
        whole = _WHOLE.fullmatch(word) if before != _SHELLS_COMMAND else None
        if whole is not None and not _stays(whole[1], whole[2], looks.kept(whole[1])):
            return f"{whole[1]}={self.hide(whole[2])}"
        user = _USER_ATTACHED.fullmatch(word)
        if user is not None and looks.names_user_and_password("u", user[1]):
            return f"-u{self.hide(user[1])}"
        attached = _ATTACHED.fullmatch(word)
        if attached is not None and not looks.stays(attached[1], KeptValues.PLAIN):
            return f"-p{self.hide(attached[1])}"
        return self.text(word, before)

    def text(self, value: str, before: str = "") -> str:
        """`before`: the word in front of this text, which may say what a long number is."""
        value = looks.KNOWN_FORMS.sub(lambda match: self.hide(match[0]), value)
        value = _URL_USER.sub(self._user, value)
        value = self._named(value, _ASSIGNMENT)
        value = self._named(value, _OPTION)
        value = self._named(value, _PROSE)
        return self._random(value, before)

    def source(self, lines: str) -> str:
        # A key in several lines leaves its lines, empty: what follows keeps its number.
        lines = looks.KNOWN_FORMS.sub(lambda match: self.hide(match[0]) + "\n" * match[0].count("\n"), lines)
        return _LITERAL.sub(self._literal, self._without_secret_texts(lines))

    def _without_secret_texts(self, code: str) -> str:
        """The code without texts under a secret's name; those of several lines leave these, empty."""
        kept, at = "", 0
        for begin, end, level in under_secret_names(code):
            said = code[begin:end]
            if not looks.stays(said, level):
                kept += code[at:begin] + self.hide(said) + "\n" * said.count("\n")
                at = end
        return kept + code[at:]

    def _literal(self, match: re.Match[str]) -> str:
        if match[0][0] == "\\":
            return match[0]
        if "\\" in match[0]:  # a value may end at what is escaped, and the literal with it
            return self._random(_URL_USER.sub(self._user, match[0]), "")
        return f"{match[0][0]}{self.text(match[0][1:-1])}{match[0][-1]}"

    def _user(self, match: re.Match[str]) -> str:
        self.found.update(match[2].split(":", 1))
        return match[0] if match[2] == "git" else f"{match[1]}{self.hide(match[2])}@"

    def _named(self, value: str, names: re.Pattern[str]) -> str:
        """The text with the values of secret names replaced, wherever such a name stands."""
        kept, at = "", 0
        shortest = SHORTEST_KNOWN if names is _PROSE else 1
        while (match := names.search(value, at)) is not None:
            given = self._level(value, match, names)
            found = given[1].match(value, match.end()) if given is not None else None
            kept += value[at : match.end()]
            at = match.end()
            if given is None or found is None:
                continue
            number = found.lastindex or 0
            secret = found[number]
            if len(secret) >= shortest and not _stays(match[1], secret, given[0]):
                kept += value[at : found.start(number)] + self.hide(secret)
                at = found.end(number)
        return kept + value[at:]

    def _level(
        self, value: str, match: re.Match[str], names: re.Pattern[str]
    ) -> tuple[KeptValues | None, re.Pattern[str]] | None:
        """Which values are kept under a name in a text, and how they go on; None: it is no secret's."""
        name, sign = match[1], match[2]
        if names is _PROSE:
            return KeptValues.PLAIN, _VALUE
        if value[: match.start()].endswith(("?", "&")) and sign == "=":
            return looks.kept_in_query(name), _QUERY_VALUE
        if ":" in sign and name.lower().endswith(_HEADERS):
            return KeptValues.SWITCHES, _HEADER_VALUE
        level = looks.kept(name)
        has_value = level is not None or looks.names_user_and_password(name, "a:b")
        return (level, _VALUE) if has_value else None

    def _random(self, value: str, before: str) -> str:
        """The text without what looks like a key by itself; names of files and commits stay."""

        def judge(match: re.Match[str]) -> str:
            token, ahead = match[0], value[: match.start()]
            in_path = ahead.endswith("/") or value[match.end() :].startswith("/")
            on_web = _WEB.search(ahead[-LONGEST_URL:]) is not None
            if not looks.is_random(token) or (in_path and not (on_web and not looks.is_hexadecimal(token))):
                return token
            if looks.is_hexadecimal(token) and looks.is_identifier(ahead or f"{before} "):
                return token
            return self.hide(token)

        value = looks.SLASHED_TOKEN.sub(self._slashed, value)
        return looks.TOKEN.sub(judge, value)

    def _slashed(self, match: re.Match[str]) -> str:
        return self.hide(match[0]) if looks.is_random_with_slashes(match[0]) else match[0]


def _stays(name: str, value: str, level: KeptValues | None) -> bool:
    return looks.stays(value, level) and not looks.names_user_and_password(name, value)
