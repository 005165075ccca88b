#!/usr/bin/env bash
# One would guess: a formula whose result is not known has no result in the file.
# What happens: XlsxWriter writes 0 as the result of every formula, also of one that gives a text, and asks the spreadsheet program to
# calculate when the file is opened. Readers that do not calculate see the number 0.
# Why it matters: an inventory that imports such a table stores 0 as a name, a serial number or a count, and nothing looks wrong.
# The workbook says `fullCalcOnLoad`, which tells such a 0 from a real one.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install XlsxWriter==3.2.9 openpyxl==3.1.5
cd "$work"
venv/bin/python - << 'PYTHON' > seen.txt
import re, zipfile

import openpyxl, xlsxwriter

print("XlsxWriter", xlsxwriter.__version__, "openpyxl", openpyxl.__version__)
book = xlsxwriter.Workbook("hosts.xlsx")
sheet = book.add_worksheet()
sheet.write_row(0, 0, ["host", "units"])
sheet.write_row(1, 0, ["web-1", 3])
sheet.write_formula(1, 2, "=UPPER(A2)")
sheet.write_formula(1, 3, "=B2*2")
book.close()
package = zipfile.ZipFile("hosts.xlsx")
for cell in re.findall(r'<c r="[CD]2".*?</c>', package.read("xl/worksheets/sheet1.xml").decode()):
    print(cell)
print(re.search(r"fullCalcOnLoad=\"1\"", package.read("xl/workbook.xml").decode()).group())
print([cell.value for cell in openpyxl.load_workbook("hosts.xlsx", data_only=True).active[2]])
PYTHON
cat seen.txt
diff - seen.txt << 'EXPECTED' || { echo "the behaviour has changed"; exit 1; }
XlsxWriter 3.2.9 openpyxl 3.1.5
<c r="C2"><f>UPPER(A2)</f><v>0</v></c>
<c r="D2"><f>B2*2</f><v>0</v></c>
fullCalcOnLoad="1"
['web-1', 3, 0, 0]
EXPECTED
echo "as described: both formulas have the result 0"
