import argparse

import yaml

import precursors  # noqa: F401
from precursors.runner import Runner


def override(config: dict, assignments: list[str]) -> dict:
    for assignment in assignments:
        path, value = assignment.split("=", 1)
        *parents, leaf = path.split(".")
        node = config
        for key in parents:
            node = node[key]
        node[leaf] = yaml.safe_load(value)
    return config


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="configs/orthogonal_cpc.yaml")
    parser.add_argument("overrides", nargs="*", help="dotted.key=value")
    args = parser.parse_args()
    with open(args.config) as handle:
        config = yaml.safe_load(handle)
    Runner(override(config, args.overrides)).run()


if __name__ == "__main__":
    main()
