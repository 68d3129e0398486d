"""What a secret looks like: by the name it stands under, by the form of its token, by its randomness."""

from __future__ import annotations

import re
from enum import IntEnum

NAME = r"[-+~]{0,4}[A-Za-z_][\w.-]{0,99}"  # bounded, as all that is looked for: a hostile text costs no time
LONGEST_PLAIN = 1000  # characters of a value that is looked at; longer ones are no plain words
LONGEST_NUMBER = 6  # digits: ports, sizes, ids of tokens in a vocabulary; longer ones may be pass codes


class KeptValues(IntEnum):
    """Which values of a secret's name are kept all the same: each level keeps what those before it do."""

    SWITCHES = 0  # `--use-auth-token true`, `$HF_TOKEN`
    PATHS = 1  # `--credentials ~/key.json`
    NUMBERS = 2  # `--pass 2`, `--token 5`
    PLAIN = 3  # `-p train`, `--session night_run`


def _table(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Names by their last word: --db-password, wandb.api_key, HF_TOKEN, clientSecret.
_LAST_WORDS = {
    KeptValues.SWITCHES: _table("password passwd passphrase passcode passwords sshpass"),
    KeptValues.PATHS: _table(
        "secret secrets credential credentials cred creds auth authorization bearer jwt apikey apitoken"
        " apisecret authtoken accesstoken accesskey secretkey privatekey clientsecret sessiontoken oauth"
    ),
    KeptValues.NUMBERS: _table(
        "token tokens pat cookie cookies sid sessionid otp totp pass pw pwd sig signature userpass"
    ),
    KeptValues.PLAIN: _table("key session login p"),
}
# --api-key, but not --sort-key
_KEYS = _table(
    "api access private secret account auth license licence encryption decryption ssh signing storage master"
    " service client consumer subscription deploy hmac aes rsa wandb hf huggingface openai anthropic aws"
    " azure gcp google comet neptune clearml mistral cohere groq replicate gemini"
)
# Tokens of a vocabulary or a network, not of a service: --eos-token, --pad-token-id, --num-cls-token
_NO_SERVICE = _table(
    "eos bos sos pad sep cls mask unk special stop start end begin image video audio speech vision visual"
    " text prompt per num n max min new next first last trigger placeholder instance task class forced"
    " decoder encoder additional extra register latent query memory think tool"
)
# --password-string, --aws-access-key-id, --api-key-v2, --password-new, --tokenA
_AFTERWARDS = _table("value string id v new old a b")
_HALVES = {("pass", "phrase"), ("pass", "word"), ("pass", "code"), ("auth", "code")}  # --pass-phrase
# In the query of a URL, beside names that are secret anywhere
_IN_QUERY = _table("key sig signature code state session sid ticket hmac policy st auth hash")
_USERS = _table("user u userpwd proxyuser login")  # curl -u NAME:PASSWORD
# Options under which a long hexadecimal number is no key
_IDENTIFIERS = _table(
    "commit revision rev ref refs sha sha1 sha256 sha512 md5 hash checksum digest etag uuid guid id ids tag"
    " branch version fingerprint git tree blob"
)

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Nothing, yes or no, what a shell or a template fills in, a vocabulary's token, the name of a variable
_SWITCH = re.compile(
    r"|true|false|yes|no|on|off|none|null|auto|\.{3}|\*+|\$\{?\w+\}?|\$\(.*\)|%\w+%|\{.*\}|%(?:\(\w+\))?[sdr]"
    r"|<\|?\w+\|?>|\[[A-Z]+\]|(?-i:[A-Z][A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASSWORD))",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?:\.{0,2}|~\w*)/[\w.@ +-]+(?:/.*)?|[\w./-]*\*\.\w+"
    r"|[\w./ -]+\.(?:txt|jsonl?|ya?ml|toml|ini|cfg|env|pem|key|crt|csv|tsv|pt|pth|ckpt|npy|npz|h5|db|py|sh"
    r"|zip|tar|gz|parquet|png|jpe?g|safetensors|onnx|log)",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = re.compile(
    rf"[-+]?\d*\.?\d+(?:e[-+]?\d+)?[%kmbt]?|\d{{1,{LONGEST_NUMBER}}}(?:[.:,/x-]\d{{1,{LONGEST_NUMBER}}})*",
    re.IGNORECASE,
)
# Characters until the kind changes: of random ones in both cases 1.7 on average, in one case 2.5 to 3.
MEAN_CHUNK, MEAN_CHUNK_OF_LETTERS, MEAN_CHUNK_OF_ONE_CASE = 2.8, 2.2, 3.6
LONGEST_MODEL_NAME = 24  # such as vitb16in21kft1k224px, which also has no words
_LONG_NUMBER = re.compile(rf"\d{{{LONGEST_NUMBER + 1},}}")
# A word, a short number, or the name of a number type or of hardware
_PIECE = (
    r"(?:[a-z]+|[A-Z][a-z]+|[A-Z]{1,4}|\d{1,6}|(?:float|bfloat|fp|bf|tf|int|uint|cuda|gpu|cpu|xpu|mps|npu|node|rtx|v"
    r"|[abhlt])\d{1,4}[a-z]{0,2})"
)
_PLAIN = re.compile(rf"{_PIECE}(?:[-_.:,/+@]{_PIECE})*|\W+")

KNOWN_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?<![A-Za-z0-9])(?:"
    # clouds
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{16,}|do[oprt]_v1_[a-f0-9]{32,}"
    r"|dapi[a-f0-9]{32}|hv[sb]\.[\w-]{20,}|LTAI[A-Za-z0-9]{12,}"
    # models and trackers
    r"|hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{16,}"
    r"|nvapi-[\w-]{16,}|xai-[A-Za-z0-9]{16,}|pplx-[A-Za-z0-9]{16,}|wandb_v\d_\w{16,}"
    # hosting and packages
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[\w-]{16,}|ATATT[\w-]{16,}"
    r"|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{16,}"
    # messages, payment, the rest
    r"|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}|SG\.[\w-]{10,}\.[\w-]{10,}"
    r"|\d{8,10}:AA[\w-]{30,}|gl(?:sa|c)_[\w-]{16,}|lin_api_\w{16,}|ntn_\w{16,}|PMAK-[\w-]{16,}|AGE-SECRET-KEY-\w+"
    # JSON web tokens, and other JSON in base64
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)*|eyJ[A-Za-z0-9+/_-]{24,}={0,2}"
    r")"
    r"|(?<=hooks\.slack\.com/services/)[\w/-]+|(?<=/api/webhooks/)[\w/-]+"
)

TOKEN = re.compile(r"(?<![A-Za-z0-9+_-])[A-Za-z0-9+_-]{20,}={0,2}(?![A-Za-z0-9])")
# Of base64, which has slashes as a path has
SLASHED_TOKEN = re.compile(r"(?<![A-Za-z0-9/+.:~-])[A-Za-z0-9+][A-Za-z0-9/+]{31,}={0,2}(?![A-Za-z0-9/+.])")
_FOLDER = re.compile(r"[a-z]{4,}|[A-Z][a-z]{3,}")
_HEXADECIMAL = re.compile(r"(?=\d*[A-Fa-f])(?:[0-9a-f]{32,}|[0-9A-F]{32,})")
_CHUNKS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")  # words and numbers, as a name is made of
_NAMED = re.compile(r"([A-Za-z][\w.-]*)[\"']?\s*[=:\s]\s*[\"']?$")


def kept(name: str) -> KeptValues | None:
    """Which values under this name are kept; None where the name is no secret's."""
    words = _words(name)
    if len(words) > 1 and words[-1] in _AFTERWARDS:
        return KeptValues.NUMBERS if words[-2] == "session" else kept("-".join(words[:-1]))
    last, before = (words[-1], words[-2] if len(words) > 1 else "") if words else ("", "")
    if (before, last) in _HALVES:
        return KeptValues.SWITCHES
    if last in ("key", "keys") and before:
        return KeptValues.PATHS if before in _KEYS else None
    if last == "tokens" and before and before not in _KEYS:  # --warmup-tokens
        return None
    if last == "token" and before in _NO_SERVICE:
        return None
    if last == "p" and before:  # --top-p
        return None
    return next((level for level, names in _LAST_WORDS.items() if last in names), None)


def kept_in_query(name: str) -> KeptValues:
    """Which values under this name are kept in the query of a URL."""
    found = kept(name)
    in_query = KeptValues.NUMBERS if (_words(name) or [""])[-1] in _IN_QUERY else KeptValues.PLAIN
    return in_query if found is None else min(found, in_query)


def stays(value: str, level: KeptValues | None) -> bool:
    """Whether a value is kept under a name of this level."""
    if level is None or (len(value) <= LONGEST_PLAIN and _SWITCH.fullmatch(value)):
        return True
    if len(value) > LONGEST_PLAIN:
        return False
    is_path = _PATH.fullmatch(value) is not None
    is_number = _NUMBER.fullmatch(value) is not None and not _LONG_NUMBER.fullmatch(value)
    return (
        (level >= KeptValues.PATHS and is_path)
        or (level >= KeptValues.NUMBERS and is_number)
        or (level >= KeptValues.PLAIN and is_plain(value))
    )


def is_plain(value: str) -> bool:
    """Whether a value is made of words and small numbers, as nobody chooses a key."""
    return _PLAIN.fullmatch(value) is not None


def names_user_and_password(name: str, value: str) -> bool:
    """Whether a value is `NAME:PASSWORD` under a name for it; `1000:1000` is none."""
    user, colon, password = value.partition(":")
    return bool(
        "".join(_words(name)) in _USERS and user and colon and password and not _NUMBER.fullmatch(value)
    ) and not password.startswith(("/", "\\"))


def is_random(token: str) -> bool:
    """Whether a token of letters and digits is of no language: a key, or part of one."""
    if _HEXADECIMAL.fullmatch(token):
        return True
    pieces = re.split(r"[-_+=]", token)
    longest = max(pieces, key=len)
    if len(longest) < 20:
        return len(token.rstrip("=")) >= 32 and len(longest) >= 12 and _is_mixed(longest) and _is_mixed(token)
    return _is_mixed(longest)


def is_random_with_slashes(token: str) -> bool:
    """Whether a token with slashes is a key: no part of it is the name of a folder."""
    parts = token.split("/")
    joined = "".join(parts)
    named = any(_FOLDER.fullmatch(part) for part in parts)
    return len(parts) > 1 and not named and not is_hexadecimal(joined) and is_random(joined)


def is_identifier(before: str) -> bool:
    """Whether what stands before a hexadecimal number says that it is a commit or a checksum."""
    named = _NAMED.search(before[-100:])
    return before.endswith("@") or (named is not None and (_words(named[1]) or [""])[-1] in _IDENTIFIERS)


def is_hexadecimal(token: str) -> bool:
    """Whether a token is a long hexadecimal number."""
    return _HEXADECIMAL.fullmatch(token) is not None


def _is_mixed(piece: str) -> bool:
    """Whether letters and digits take turns too often for words."""
    chunks = _CHUNKS.findall(piece)
    letters = "".join(filter(str.isalpha, piece))
    mean = sum(map(len, chunks)) / max(1, len(chunks))
    has_digits = any(map(str.isdigit, piece))
    if letters.islower() or letters.isupper():
        return has_digits and len(piece) >= LONGEST_MODEL_NAME and mean < MEAN_CHUNK_OF_ONE_CASE
    return bool(letters) and mean < (MEAN_CHUNK if has_digits else MEAN_CHUNK_OF_LETTERS)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
