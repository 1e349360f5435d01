import sys

from bench.tasks import main

sys.exit(main())
