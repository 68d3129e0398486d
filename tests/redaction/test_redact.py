from __future__ import annotations

import pytest

from perfdoctor.redaction import redact

SECRETS = [
    ["--api-key=CANARY"],
    ["--api_key", "CANARY"],
    ["--password", "CANARY"],
    ["--password", "-CANARY"],
    ["--password=a b;CANARY&c"],
    ["-password", "CANARY"],
    ["--hf-token", "CANARY"],
    ["--wandb-key", "CANARY"],
    ["--aws_secret_access_key=CANARY"],
    ["wandb.api_key=CANARY"],
    ["+trainer.logger.token=CANARY"],
    ["HF_TOKEN=CANARY"],
    ["https://user:CANARY@host/path"],
    ["https://CANARY@github.com/x"],
    ["postgres://user:CAN@ARY@host/db"],
    ["https://host/?a=1&token=CANARY&b=2"],
    ["-H", "Authorization: Bearer CANARY"],
    ['--config={"api_key": "CANARY", "lr": 0.1}'],
    ["bash", "-c", "WANDB_API_KEY=CANARY python train.py --password CANARY --hf_token='CANARY'"],
    ["hf_CANARYCANARYCANARYCANARY"],
    ["--id=ghp_CANARYCANARYCANARYCANARY"],
]
# (words, the secret in them): by name, in URLs, by form, by look
MORE_SECRETS = [
    # options of one letter and names that some values of are harmless
    ("-p hunter2", "hunter2"),
    ("-p CANARY", "CANARY"),
    ("-pHunter2x9", "Hunter2x9"),
    ("--login alice:x9Kz", "x9Kz"),
    ("--login=alice:CANARY", "CANARY"),
    ("-u alice:correcthorse", "correcthorse"),
    ("--user alice:correcthorse", "correcthorse"),
    ("--creds=correcthorse", "correcthorse"),
    ("--cred correcthorse", "correcthorse"),
    ("--pat abcdef", "abcdef"),
    ("--pat=x7", "x7"),
    ("--jwt abc", "abc"),
    ("--cookie sid=a1b2c3", "a1b2c3"),
    ("--cookie abc", "abc"),
    ("--session-id abc", "abc"),
    ("--session_id=7f3a9c", "7f3a9c"),
    ("--session Zk81mQ", "Zk81mQ"),
    ("--sid abc", "abc"),
    ("--otp 12345678", "12345678"),
    ("--key Zk81mQx", "Zk81mQx"),
    ("--pass hunter", "hunter"),
    ("--passphrase 1234", "1234"),
    ("--password 1234", "1234"),
    ("--password night", "night"),
    ("--secret abc", "abc"),
    ("--auth abc", "abc"),
    ("--token abc", "abc"),
    ("--pass-phrase opensesame", "opensesame"),
    ("--pass_word=abc", "abc"),
    ("--sshpass abc", "abc"),
    ("--auth-code abc", "abc"),
    ("--oauth abc", "abc"),
    ("--userpass bob:abc", "abc"),
    ("-ubob:Zk81mQ", "Zk81mQ"),
    ("--auth-tokens tok777tok", "tok777tok"),
    ("--hf-tokens=abc", "abc"),
    ("--tokens Zk81mQ", "Zk81mQ"),
    # one word in the middle, camel case, prefixes, suffixes
    ("--api-key-v2 abc", "abc"),
    ("--password-new abc", "abc"),
    ("--tokenA abc", "abc"),
    ("--clientSecret abc", "abc"),
    ("--accessToken=abc", "abc"),
    ("--apiKey abc", "abc"),
    ("--APIKey abc", "abc"),
    ("--authtoken abc", "abc"),
    ("--db-password abc", "abc"),
    ("--password-string abc", "abc"),
    ("--aws-access-key-id abc", "abc"),
    ("--storage-account-key abc", "abc"),
    ("--signing-key=abc", "abc"),
    ("~logger.wandb.api_key=abc", "abc"),
    ("++logger.token=abc", "abc"),
    ("COMET_API_KEY=abc", "abc"),
    ("MYSQL_PWD=abc", "abc"),
    # URLs
    ("https://h/x?key=abc", "abc"),
    ("https://h/x?sv=1&sig=abc", "abc"),
    ("?sv=1&sig=abc", "abc"),
    ("--data=https://h/x?sv=2022-11-02&sig=a%2Fb%3D", "a%2Fb%3D"),
    ("https://h/x?X-Amz-Credential=AKIAX%2F2026&X-Amz-Signature=0a1b2c3d", "0a1b2c3d"),
    ("https://h/x?X-Amz-Credential=Zk81mQx%2F2026", "Zk81mQx"),
    ("https://h/x?X-Amz-Security-Token=abc", "abc"),
    ("https://h/x?access_token=abc#top", "abc"),
    ("https://h/cb?code=Zk81mQx&state=s9Kd", "s9Kd"),
    ("https://h/x?v=Zk81mQx", "Zk81mQx"),
    ("s3://Zk81mQ:s9Kd@bucket/prefix", "s9Kd"),
    ("postgres://u:Ab/cd99xyz@h/db", "cd99xyz"),
    ("mongodb+srv://alice:s9Kd@h/db", "s9Kd"),
    ("redis://:s9Kd@h:6379/0", "s9Kd"),
    ("git+https://s9Kd@github.com/x/y", "s9Kd"),
    ("https://hooks.slack.com/services/T0/B0/s9Kd", "s9Kd"),
    ("https://discord.com/api/webhooks/1/s9Kd", "s9Kd"),
    ("https://h/dl/Zk81mQx7RtLw02VbNq4c/set.tar", "Zk81mQx7RtLw02VbNq4c"),
    # headers and command lines in one word
    ("-H|X-Api-Key: abc", "abc"),
    ("-H|Cookie: a=1; sid=abc", "abc"),
    ("-H|Authorization: Token abc", "abc"),
    ("-H|Authorization: Basic YWxpY2U6aHVudGVy", "YWxp"),
    ("bash|-c|python x.py -p hunter2 --lr 0.1", "hunter2"),
    ("bash|-c|python x.py --login alice:s9Kd", "s9Kd"),
    ("--env|DB_PASSWORD=abc", "abc"),
    ("--conn=Server=h;AccountKey=s9Kd==;Timeout=5", "s9Kd"),
    ("--json={'user': 'a', 'password': 'abc'}", "abc"),
    ("--msg|the password is Zk81mQ", "Zk81mQ"),
    ("--msg|bad token 'Zk81mQ'", "Zk81mQ"),
    # forms of tokens
    ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "SyA1234"),
    ("ya29.a0AfH6SMBx1234567890", "a0AfH6"),
    ("sk-proj-abcdefghij1234567890", "abcdefghij"),
    ("sk-" + "ant-abcdefghij1234567890", "abcdefghij"),
    ("gsk_abcdefghij1234567890", "abcdefghij"),
    ("hf_abcdefghijklmnopqrst", "abcdefghij"),
    ("nvapi-abcdefghij1234567890", "abcdefghij"),
    ("ghp_abcdefghijklmnopqrst1234", "abcdefghij"),
    ("github_pat_11ABCDEFG0abcdefghij", "abcdefghij"),
    ("glpat-abcdefghij1234567890", "abcdefghij"),
    ("npm_abcdefghij1234567890", "abcdefghij"),
    ("pypi-AgEIcHlwaS5vcmcCJDAw", "AgEIcHlw"),
    ("xoxb-123456789012-abcdefghij", "abcdefghij"),
    ("sk_live_abcdefghij123456", "abcdefghij"),
    ("SG.abcdefghijklmnop.qrstuvwxyz123456", "qrstuvwxyz"),
    ("1234567890:AAabcdefghijklmnopqrstuvwxyz123456789", "abcdefghij"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0"),
    ("eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8vYXBwIn0=", "YWRkcmVz"),
    ("--pem|-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    # no name and no form: letters and digits in turns
    ("train.py Zk81mQx7RtLw02VbNq4c", "Zk81mQx7"),
    ("--x=Zk81mQx7RtLw02VbNq4c", "Zk81mQx7"),
    ("--name 3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c3f9a8b7c", "3f9a8b7c"),
    ("--x wJalrXUtnFEMI/K7MDENG/bPxRfiCYzk9Q2mT7Lp", "K7MDENG"),
    ("--x k3J9-xQ2mZ7tPw4Lb8Vn1Rc6Ys0Dg5Hf_e", "xQ2mZ7"),
    ("--x c2VjcmV0IHBhc3N3b3JkIDEyMw==", "c2VjcmV0"),
]
HARMLESS = [
    ["train.py", "--lr", "1e-3", "--batch-size=64", "-m", "pkg"],
    ["--tokenizer", "gpt2", "--max-tokens", "512", "--token-length=5"],
    ["--passes", "3", "--bypass=1", "--author", "me", "--compass=n"],
    ["--use-auth-token", "--epochs", "3"],
    ["data/pass/token/secret.txt"],
    ["https://host/path?a=1"],
    ["--sort-key", "loss", "--image-key=jpg"],
    ["bash", "-c", "OMP_NUM_THREADS=2 python train.py --lr 0.1"],
]
MORE_HARMLESS = """
    -p 8080|--port 8080|-p 0.5|-p 8080:80|-p 127.0.0.1:8080:80|-p gpu|srun -p gpu-a100 python train.py|-p float32
    -p no:cacheprovider|mkdir -p /tmp/out/run_1|mkdir -p out|ssh -p 22 host|-path x|-prefix out|-precision bf16|-p8080
    --patience 3|--pattern '*.png'|--pattern *.png|--path out|--patch-size 16|--pad 3|--passes 2|--pass 2
    --key-dim 64|--key loss|--sort-key F1|--keys 3|--key-bindings vi|--cache-key A1b2C3|--num-keys 4|--hotkey X1
    --token-length 128|--tokenizer-name bert-base-uncased|--eos-token </s>|--eos-token-id 50256|--pad_token=[PAD]
    --max-new-tokens 64|--special-token X9a|--num-cls-token 4|--token 5|--mask-token <mask>|--tokens-per-sample 512
    --session 3|--session train_01|--session-length 20|--session-id 3|--login alice|--user alice|-u train.py
    --user 1000:1000|--cookie-file c.txt|--cookies ~/cookies.txt|--credentials ~/key.json|--ssh-key ~/.ssh/id_rsa
    --password-file secret.txt|--secret-name db|--secret-config conf.yaml|--auth-type basic|--token-env HF_TOKEN
    --password $DB_PASSWORD|--token ${HF_TOKEN}|--use-auth-token true|--token None|--password ***
    --commit 3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c3f9a8b7c|--revision=3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c3f9a8b7c|9f3a8b7
    --sha256 3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c|--run-id 3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c
    git+https://github.com/x/y@3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c3f9a8b7c|git@github.com:x/y.git|ssh://git@github.com/x/y
    /cache/snapshots/3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c3f9a8b7c/model.safetensors|mlruns/0/3f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c
    /nix/store/0c7kq5x9r2m4v8b1n3z6w0y5t7p2d4f6-python3/bin/python|/data/ImageNet2012/trainSet/n01440764/img_1.JPEG
    meta-llama/Llama-3.1-8B-Instruct|TheBloke/Mistral-7B-Instruct-v0.2-GPTQ|google/vit-base-patch16-224-in21k
    Qwen/Qwen2.5-Coder-32B-Instruct-AWQ|convnext_xxlarge.clip_laion2b_soup_ft_in1k|efficientnet_b0.ra_in1k
    vit_large_patch14_reg4_dinov2.lvd142m|openai/clip-vit-large-patch14-336|resnet50v2imagenet1kpretrained
    MyVeryLongLightningModuleV2|DistributedDataParallelStrategy|torch.optim.AdamW|pkg.module:TrainingEntryPoint
    2026-11-23T13:05:00Z|20261123-130500-train-12345|GPU-8f3a2b1c-0d9e-4f3a-8b7c-6d5e4f3a2b1c|1,2,3,4
    550e8400-e29b-41d4-a716-446655440000|12345678901234567890123456|0x7f3a8b7c6d5e|1e-05|3.14159265358979323846
    --betas 0.9 0.999|--schedule cosine_with_warmup_restarts|model.layers.11.self_attn.q_proj.weight|--top-p Aa9
    s3://bucket/prefix/part-00001|gs://bucket/imagenet/train.tar|hdfs://nn:8020/data|https://h:8443/a/b/model.pt
    https://h/x?split=train&rev=main&page=3|https://h/d?format=parquet|http://127.0.0.1:29500|tcp://10.0.0.1:23456
    --rdzv-endpoint=host:29400|--init-method=env://|--master_addr=node01|optimizer.lr=0.01|+trainer.precision=bf16-mixed
    --tokens 512|--warmup-tokens 1e9|--train-tokens 10B|--tokens 300M|--special-tokens [A]|http://h:80/x@y|-ufoo
    data.keys=[a,b]|model.key_dim=64|hydra.run.dir=out/${now}|--monitor val/loss|--note see_issue_12
"""


def _words(line: str) -> list[str]:
    """The words of a line, parted by | where they hold spaces."""
    return line.split("|") if "|" in line else line.split(" ", 1)


@pytest.mark.parametrize(("line", "secret"), MORE_SECRETS, ids=[line for line, _ in MORE_SECRETS])
def test_a_secret_goes_by_its_name_its_form_or_its_look(line: str, secret: str) -> None:
    kept = redact.command(["python", "train.py", *_words(line)])
    assert secret not in " ".join(kept)
    assert redact.REDACTED in " ".join(kept)


@pytest.mark.parametrize(
    "line", [line.strip() for row in MORE_HARMLESS.strip().split("\n") for line in row.split("|")]
)
def test_a_near_miss_stays(line: str) -> None:
    words = ["python", "train.py", *line.split(" ")]
    assert redact.command(words) == words


@pytest.mark.parametrize("words", SECRETS, ids=" ".join)
def test_a_secret_is_replaced(words: list[str]) -> None:
    kept = redact.command(words)
    assert "CAN" not in " ".join(kept)
    assert redact.REDACTED in " ".join(kept)
    assert len(kept) == len(words)


@pytest.mark.parametrize("words", HARMLESS, ids=" ".join)
def test_what_is_no_secret_stays(words: list[str]) -> None:
    assert redact.command(words) == words


def test_what_surrounds_a_secret_stays() -> None:
    assert redact.command(["train.py", "--api-key=x", "--lr", "0.1"]) == [
        "train.py",
        "--api-key=<redacted>",
        "--lr",
        "0.1",
    ]
    line = "TOKEN=x python train.py --lr 0.1"
    assert redact.command(["bash", "-c", line]) == ["bash", "-c", "TOKEN=<redacted> python train.py --lr 0.1"]


def test_of_the_environment_only_what_matters_for_speed_is_kept() -> None:
    environ = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "OMP_NUM_THREADS": "4",
        "NCCL_DEBUG": "INFO",
        "TOKENIZERS_PARALLELISM": "false",
        "NCCL_KEY": "CANARY",
        "TORCH_AUTH": "CANARY",
        "WANDB_API_KEY": "CANARY",
        "HOME": "/home/me",
        "MY_OMP_NUM_THREADS": "4",
        "TORCH_HOME": "https://user:CANARY@host/",
        "LD_PRELOAD": "x" * 5000,
    }
    kept = redact.environment(environ)
    assert set(kept) == {
        "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "NCCL_DEBUG", "TOKENIZERS_PARALLELISM", "TORCH_HOME", "LD_PRELOAD",
    }  # fmt: skip
    assert "CANARY" not in str(kept)
    assert len(kept["LD_PRELOAD"]) == redact.VALUE_CHARACTERS


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('connect("https://u:Zk8@h/x", 3)', 'connect("https://<redacted>@h/x", 3)'),
        ('get("https://h/x?sig=Zk8&page=2")', 'get("https://h/x?sig=<redacted>&page=2")'),
        ("login(token='Zk8', lr=0.1)", "login(token='<redacted>', lr=0.1)"),
        ('API_KEY = "Zk8"  # mine', 'API_KEY = "<redacted>"  # mine'),
        ('headers = {"Authorization": "Bearer Zk8"}', 'headers = {"Authorization": "<redacted>"}'),
        ('connect("dbname=x password=Zk8")', 'connect("dbname=x password=<redacted>")'),
        ("os.environ['HF_TOKEN'] = 'Zk8'", "os.environ['HF_TOKEN'] = '<redacted>'"),
        ('login("hf_abcdefghijklmnopqrst")', 'login("<redacted>")'),
        ('key = """-----BEGIN PRIVATE KEY-----\nMIIE\n"""', 'key = """<redacted>\n\n"""'),
    ],
)
def test_in_source_literals_lose_their_secrets(line: str, kept: str) -> None:
    assert redact.source(line) == kept
    compile(kept, "kept", "exec")


@pytest.mark.parametrize(
    "line",
    [
        "token = tokenizer(text, max_length=128)",
        "order = sorted(items, key=len)",
        "password = getpass.getpass()",
        "k = self.key(x); token = k[:, 0]",
        'token = os.environ["HF_TOKEN"]',
        'get(f"https://h/x?page={page}&token={token}")',
        'log("token: %s", token)',
        'tokenizer.add_special_tokens({"pad_token": "[PAD]"})',
        'model = timm.create_model("vit_large_patch14_reg4_dinov2.lvd142m")',
        "# it's the user's token=none of ours",
        'ENV_GITHUB_TOKEN = "GITHUB_TOKEN"',
        'raise ValueError(f"unknown key: {self.key} and token={x!r}")',
    ],
)
def test_code_stays_code(line: str) -> None:
    assert redact.source(line) == line


def test_what_is_known_goes_wherever_it_stands() -> None:
    words = ["train.py", "--password", "correcthorse", "--lr", "0.1", "--token", "5", "https://u:battery@h/"]
    known = redact.secrets(
        words, {"HF_TOKEN": "staple99", "HOME": "/home/me", "TOKENIZERS_PARALLELISM": "false"}
    )
    assert known == {"correcthorse", "battery", "staple99", "u:battery"}
    told = "refused correcthorse and battery at /home/me, not staple99, 0.1"
    assert redact.text(told, known) == "refused <redacted> and <redacted> at /home/me, not <redacted>, 0.1"


def test_what_is_redacted_stays_as_it_is() -> None:
    once = redact.command(
        ["train.py", "-p", "hunter2", "--api-key=x9", "https://u:p@h/?sig=Zk8", "-H", "Cookie: a=b"]
    )
    assert redact.command(once) == once


@pytest.mark.parametrize(
    "part", ["a.b-", "a=", "token ", "://", "https://", "Aa1_", "-----BEGIN ", "'", "?a=", " "]
)
def test_a_long_hostile_text_takes_no_longer_than_any(part: str) -> None:
    """Where a pattern began anew at each place, this would take an hour."""
    redact.text(part * (300_000 // len(part)))
    redact.source(part * (300_000 // len(part)))
