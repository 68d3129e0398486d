from __future__ import annotations

import pytest

from perfdoctor.redaction import redact

SECRET = "letmein77"
UNDER_A_NAME = [
    'def fetch(n, api_key: str = "letmein77"): ...',
    'password: str = "letmein77"',
    'token: Optional[str] = "letmein77"',
    'os.environ.setdefault("WANDB_API_KEY", "letmein77")',
    'host = os.environ.get("DB_PASSWORD", "letmein77")',
    'parser.add_argument("--password", default="letmein77")',
    'setattr(conf, "api_key", "letmein77")',
    'password = os.getenv("P") or "letmein77"',
    'token = os.environ.get("X") or "letmein77"',
    'password = "x" if debug else "letmein77"',
    'user, password = "bob", "letmein77"',
    'self.password, self.user = "letmein77", "u"',
    'password = rb"letmein77"',
    'password = """letmein77"""',
    'password = """\nletmein77\n"""',
    'passwords = ["x", "letmein77"]',
    'password = "let\\"letmein77"',
    'password = b64decode("letmein77")',
    'password = (\n    "letmein77"\n)',
    'connect(host="h", password=("letmein77"), port=3)',
    '(password := "letmein77")',
    'if password == "letmein77": pass',
    'if args.api_key != "letmein77": pass',
    'conf = {"auth": {"user": "bob", "pw": "letmein77"}}',
    'conf["db"]["password"] = "letmein77"',
    '# password = "letmein77"',
]
NO_SECRETS = [
    'tokenizer = "bert"',
    'num_tokens = 512; name = "x"',
    'mask = layer(key_padding_mask=m, name="abc")',
    'batch = {"token_type_ids": x, "a": "b"}',
    'order = sorted(items, key=lambda row: row["name"])',
    'columns = ["user", "password", "age"]',
    'df = df.drop("password", axis="columns")',
    'token = line.split(" ")[0]',
    'token = text.split("word")[0]',
    'if token == "the": n += 1',
    'if "password" in d: print("yes")',
    'tok = Tok(unk_token="[UNK]", pad_token="[PAD]")',
    'parser.add_argument("--key", default="loss")',
    'parser.add_argument("--hf-token", type=str, help="as the hub gives it")',
    'print("pass", "fail")',
    'd = {"key": "a", "value": "b"}',
    'model = AutoModel.from_pretrained("bert-base", token=True, cache_dir="cache")',
    'auth = None; mode = "abc"',
    'plot(x="token", y="loss")',
    'config.get("token", "first")',
    'if name in ("password", "user"): skip(name)',
]


@pytest.mark.parametrize("code", UNDER_A_NAME)
def test_a_text_under_the_name_of_a_secret_goes(code: str) -> None:
    kept = redact.source(code)
    assert SECRET not in kept
    assert kept.count("\n") == code.count("\n")
    compile(kept, "kept", "exec")


@pytest.mark.parametrize("code", NO_SECRETS)
def test_a_text_under_another_name_stays(code: str) -> None:
    assert redact.source(code) == code


def test_a_line_out_of_the_midst_of_a_statement_is_read_too() -> None:
    assert redact.source('    password="letmein77", name="x")\ny = "z"') == (
        '    password="<redacted>", name="x")\ny = "z"'
    )


@pytest.mark.parametrize("part", ["\\'", "password='", "'''\"", "(", "password=(", "a,", "x.y,", "\n"])
def test_a_long_hostile_text_takes_no_longer_than_any(part: str) -> None:
    redact.source(part * (300_000 // len(part)))
