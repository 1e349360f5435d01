import sys

sys.path.insert(0, ".")
import calc

print("two and two:", calc.add(2, 2))
