#!/usr/bin/env bash
# One would guess: a table that is opened and saved keeps its whole numbers, at least those that a double holds exactly (to 2^53).
# What happens: LibreOffice Calc writes 15 digits of a number into .xlsx, so 1234567890123456 comes back as 1234567890123460. The
# same program writes all 16 digits into CSV, so the number was read right.
# Why it matters: serial numbers, asset tags and ids of 16 digits are usual in an inventory. One round trip through the spreadsheet
# changes them, in cells that nobody touched. An export that writes such numbers as texts keeps them.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# Of Debian 12: 4:7.4.7-1+deb12u12. There is no package that can be installed in a folder.
command -v soffice > /dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    'libreoffice-calc-nogui=4:7.4.7-1*' > /dev/null; }
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install openpyxl==3.1.5
cd "$work"
venv/bin/python - << 'PYTHON'
import openpyxl

book = openpyxl.Workbook()
for row in [["serial"], [123456789012345], [1234567890123456], [9007199254740991], ["1234567890123456"]]:
    book.active.append(row)
book.save("assets.xlsx")
PYTHON
for format in xlsx csv; do
    soffice "-env:UserInstallation=file://$work/profile" --headless --convert-to "$format" --outdir saved assets.xlsx > convert.log 2>&1
done
soffice --version | cut -d' ' -f1-2
{
    echo "saved as CSV:  $(paste -sd' ' saved/assets.csv)"
    venv/bin/python -c 'import openpyxl; print("saved as xlsx:", *(repr(row[0].value) for row in openpyxl.load_workbook("saved/assets.xlsx").active.rows))'
} > seen.txt
cat seen.txt
diff - seen.txt << 'EXPECTED' || { echo "the behaviour has changed"; exit 1; }
saved as CSV:  serial 123456789012345 1234567890123456 9007199254740991 1234567890123456
saved as xlsx: 'serial' 123456789012345 1234567890123460 9007199254740990 '1234567890123456'
EXPECTED
echo "as described: numbers of 16 digits are changed in .xlsx, texts and 15 digits are not"
