"""`terraform-provider-medley`: what Terraform starts; with an argument, what those do who build it."""

import os
import sys
from pathlib import Path

_USAGE = """terraform-provider-medley is started by Terraform. By hand:

  terraform-provider-medley docs FOLDER          write the documentation that the schemas make
  terraform-provider-medley mirror FOLDER        lay out a filesystem mirror with this provider in it"""


def main() -> None:
    match sys.argv[1:]:
        case ["docs", folder]:
            from medley_terraform.docs import write_docs

            write_docs(Path(folder))
        case ["mirror", folder]:
            from medley_terraform.mirror import lay_out

            sys.stdout.write(f"{lay_out(Path(folder))}\n")
        case []:
            from medley_terraform.server import COOKIE, serve

            if os.environ.get(COOKIE[0]) != COOKIE[1]:
                sys.exit(_USAGE)
            serve()
        case _:
            sys.exit(_USAGE)


if __name__ == "__main__":
    main()
