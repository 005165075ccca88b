# Die Texte der Seite auf Deutsch. Jeder Schlüssel steht in jeder Datei dieses Ordners, mit denselben Variablen.
product = Inventar
skip = Zum Inhalt springen
sign-in = Anmelden
sign-in-name = Benutzername
sign-in-password = Passwort
sign-in-failed = Benutzername oder Passwort ist falsch.
sign-in-later = Zu viele Fehlversuche. Versuchen Sie es in { $seconds } Sekunden wieder.
sign-in-again = Ihre Sitzung ist beendet. Melden Sie sich an, um fortzufahren.
sign-in-kept = Ihre Eingaben sind noch da. Melden Sie sich an, um sie zu speichern.
sign-in-done = Sie sind wieder angemeldet. Ihre Eingaben sind noch nicht gespeichert.
sign-in-resume = Eingaben speichern
sign-out = Abmelden
signed-in-as = Angemeldet als
search = Suchen
search-hint = Nummer oder Text
search-title = Suche: { $text }
search-none = Nichts gefunden für „{ $text }“.
search-ask = Geben Sie die Nummer eines Objekts oder Wörter seiner Werte ein.
search-incomplete = Das Verzeichnis der Wörter entsteht noch. Objekte können fehlen.
found-more = Die ersten { $count } Objekte. Es gibt mehr: Fügen Sie ein Wort hinzu.
found = { $count ->
    [one] { $count } Objekt gefunden
   *[other] { $count } Objekte gefunden
}
menu = Typen
uncategorised = Weitere Typen
no-types = Es gibt keine Typen, die Sie sehen dürfen.
overview = Übersicht
overview-text = Wählen Sie einen Typ, oder suchen Sie ein Objekt.
objects = { $count ->
    [one] { $count } Objekt
   *[other] { $count } Objekte
}
object-number = Objekt { $id }
number = Nr.
active = Aktiv
inactive = Inaktiv
yes = Ja
no = Nein
any = Alle
filter = Filtern
filter-clear = Filter entfernen
filter-written = Geschriebener Filter
filter-written-hint = Für alle, die MongoDBs Abfragesprache kennen, zum Beispiel {"{"}"f.units": {"{"}"$gt": 2{"}"}{"}"}
filter-contains = { $label } enthält
filter-from = { $label } von
filter-to = { $label } bis
filter-is = { $label } ist
filter-refers = { $label } verweist auf
from = von
to = bis
columns = Spalten
columns-show = Diese Spalten zeigen
sort-up = sortiert, kleinste zuerst
sort-down = sortiert, größte zuerst
sort-by = Nach { $label } sortieren
next-page = Nächste Seite
first-page = Erste Seite
export-csv = CSV
export-xlsx = Excel
export-as = Exportieren als
new = Neu
new-title = Neu: { $type }
edit = Bearbeiten
edit-title = Bearbeiten: { $name }
delete = Löschen
delete-title = Löschen: { $name }
save = Speichern
create = Anlegen
cancel = Abbrechen
required = Pflichtfeld
optional-none = Keine Angabe
changed-now = Gespeichert.
created-now = Angelegt.
errors-title = Es gibt ein Problem
errors-text = Nichts wurde gespeichert. Berichtigen Sie, was markiert ist, und speichern Sie noch einmal.
conflict-title = Jemand hat dieses Objekt inzwischen geändert
conflict-text = { $who } hat es am { $when } geändert. Ihre Eingaben sind noch da. Prüfen Sie die markierten Felder, und speichern Sie noch einmal.
conflict-field = Inzwischen steht hier: { $value }
conflict-taken = Sie hatten hier nichts geändert, also gilt der neue Wert.
password-hint = Leer lassen, um das gespeicherte zu behalten.
password-clear = Das gespeicherte entfernen
password-show = Zeigen
reference-hint = Eine Nummer oder ein Teil des Namens. { $types }
reference-hint-several = Eines je Zeile: eine Nummer oder ein Teil des Namens. { $types }
reference-which = Mehrere Objekte passen zu „{ $text }“. Welches?
reference-none-found = Kein Objekt passt zu „{ $text }“.
reference-too-many = Mehr als { $count } Objekte passen zu „{ $text }“. Geben Sie mehr vom Namen ein.
time-hint = In UTC
not-editable = Ein Wert dieser Art kann hier nicht bearbeitet werden.
not-a-number = Geben Sie eine Zahl ein.
hidden = für Sie verborgen
nowhere = führt zu einem Objekt, das es nicht gibt ({ $id })
empty = leer
links = Links
refers-here = Verweist hierher
refers-none = Kein Objekt, das Sie sehen dürfen, verweist hierher.
refers-all = Alle { $count }
about = Über dieses Objekt
created-at = Angelegt
edited-at = Geändert
version = Version
by = von { $who }
history = Verlauf
history-all = Ganzer Verlauf
history-none = Es gibt keinen Verlauf.
unknown-user = Jemand
history-create = { $who } hat es angelegt.
history-import = { $who } hat es importiert.
history-delete = { $who } hat es gelöscht.
history-revert = { $who } hat einen früheren Stand zurückgeholt.
history-clean = { $who } hat die Felder dem Typ angepasst.
history-outside = Ein anderes Werkzeug hat es geändert.
history-activate = { $who } hat es aktiviert.
history-deactivate = { $who } hat es deaktiviert.
history-edit = { $who } hat es geändert.
history-field = { $label }: von „{ $old }“ zu „{ $new }“
history-set = { $label }: auf „{ $new }“ gesetzt
history-cleared = { $label }: „{ $old }“ entfernt
history-touched = { $label }: geändert
history-comment = Kommentar: { $text }
history-look = Diesen Stand ansehen
past = Das ist der Stand vom { $when }, nicht der heutige.
past-present = Den heutigen Stand zeigen
past-back = Diesen Stand zurückholen
moment = Zeitpunkt
moment-hint = Tag und Uhrzeit in UTC, wie 2026-01-31T12:00:00Z, oder die Nummer eines Eintrags
moment-go = Zeigen
delete-ask = Dieses Objekt löschen?
delete-refers = { $count ->
    [one] { $count } Objekt verweist darauf.
   *[other] { $count } Objekte verweisen darauf.
}
delete-refers-none = Kein Objekt, das Sie sehen dürfen, verweist darauf.
delete-keep = Diese Verweise behalten. Sie führen dann ins Leere.
delete-clear = Diese Verweise leeren.
delete-refuse = Nicht löschen, solange Objekte darauf verweisen.
delete-references = Was geschieht mit den Verweisen?
delete-refused = Es wurde nicht gelöscht: Objekte verweisen darauf. Wählen Sie einen anderen Weg, oder ändern Sie zuerst diese Objekte.
delete-do = Das Objekt löschen
deleted-now = Objekt { $id } wurde gelöscht.
undo = Rückgängig
restored-now = Das Objekt ist wieder da.
changes = Was sich geändert hat
changes-none = Nichts hat sich geändert.
deleted-objects = Gelöschte Objekte
deleted-none = Kein Objekt wurde gelöscht.
restore = Wiederherstellen
inactive-type = Dieser Typ ist inaktiv. Seine Objekte können nur gelesen werden.
error-title = Das ging nicht
error-back = Zur Übersicht
error-missing = Das gibt es nicht, oder Sie dürfen es nicht sehen.
error-forbidden = Das dürfen Sie nicht.
error-busy = Der Dienst hat viel zu tun. Versuchen Sie es gleich noch einmal.
error-forged = Dieses Formular ist zu alt, oder es kommt von einer anderen Seite. Nichts wurde geändert. Öffnen Sie die Seite neu, und wiederholen Sie es.
forward = Weiter
overview-types = Objekte nach Typ
overview-values = Objekte nach den Werten eines Feldes
overview-by = Feld
overview-soon = Tage, die bald kommen
overview-days = Änderungen am Tag
within-days = in { $days } Tagen
count = Anzahl
day = Tag
type = Typ
field = Feld
show = Anzeigen
changes-who = von (Benutzername)
graph = Graph
graph-title = Graph: { $name }
graph-direction = Zeige
graph-both = worauf es verweist und was darauf verweist
graph-out = worauf es verweist
graph-in = was darauf verweist
graph-depth = Schritte
graph-none = Es verweist auf kein Objekt, das Sie sehen dürfen, und keines verweist darauf.
graph-cut = Objekte mit gestricheltem Rahmen haben weitere Nachbarn.
graph-file = Als SVG speichern
graph-from = Objekt
graph-field = verweist mit
graph-to = auf
choose = Objekt { $id } auswählen
several = Mehrere Objekte ändern
several-ticked = Die angekreuzten ändern
several-all = Alle { $count } gefundenen ändern
several-none = Es wurde kein Objekt ausgewählt. Gehen Sie zurück und kreuzen Sie die Objekte an.
several-set = Ein Feld setzen
several-change = { $count ->
    [one] { $count } Objekt ändern
   *[other] { $count } Objekte ändern
}
several-activate = { $count ->
    [one] { $count } Objekt aktivieren
   *[other] { $count } Objekte aktivieren
}
several-deactivate = { $count ->
    [one] { $count } Objekt deaktivieren
   *[other] { $count } Objekte deaktivieren
}
several-delete = { $count ->
    [one] { $count } Objekt löschen
   *[other] { $count } Objekte löschen
}
several-sure = Geben Sie zur Bestätigung { $count } ein
several-done = { $count ->
    [one] { $count } Objekt wurde geändert.
   *[other] { $count } Objekte wurden geändert.
}
import = Importieren
import-title = Importieren: { $type }
import-rows = Zeilen
import-rows-hint = Kopieren Sie Zellen aus einer Tabelle und fügen Sie sie hier ein, oder den Text einer CSV-Datei. Die erste Zeile hat die Namen oder Bezeichnungen von Feldern:
import-key = Zeilen ändern das Objekt mit gleichem Wert in
import-key-none = Nummer (public_id), oder legen Objekte an
import-decimal = Dezimalzahlen
import-dates = Datumsangaben
import-true = Wörter für ja
import-false = Wörter für nein
import-again = Die Objekte noch einmal anlegen, obwohl diese Zeilen in den letzten 24 Stunden importiert wurden
import-check = Nur prüfen
import-would = Noch wurde nichts geändert. Neue Objekte: { $created }; geändert: { $updated }; wie zuvor: { $unchanged }.
import-did = Importiert. Neue Objekte: { $created }; geändert: { $updated }; wie zuvor: { $unchanged }.
import-partly = Davor gespeichert: { $created } neue Objekte, { $updated } geändert. Importieren Sie dieselben Zeilen noch einmal, um sie zu vervollständigen.
import-failed = { $count ->
    [one] { $count } Zeile kann nicht importiert werden, daher wird keine importiert.
   *[other] { $count } Zeilen können nicht importiert werden, daher wird keine importiert.
}
import-warnings = Bitte ansehen
import-line = Zeile
import-reason = Was nicht stimmt
import-more = { $count ->
    [one] { $count } weitere wird nicht gezeigt.
   *[other] { $count } weitere werden nicht gezeigt.
}
import-earlier = Diese Zeilen wurden in den letzten 24 Stunden schon importiert. Jetzt wurde nichts geändert. Kreuzen Sie das Feld unten an, um ihre Objekte noch einmal anzulegen.
saved = Gespeicherte Listen
saved-name = Name
saved-keep = Diese Liste speichern
saved-forget = { $name } entfernen
definition = Definition
definition-title = Definition: { $type }
definition-new = Neuer Typ
definition-label = Bezeichnung
definition-name = Name
definition-description = Beschreibung
definition-fields = Felder
definition-hint = Werte folgen einem Feld, das einen anderen Namen oder eine andere Art bekommt. Sehen Sie sich vor dem Speichern den Plan an.
definition-new-field = Neues Feld
definition-kind = Art
definition-place = Platz
definition-section = Abschnitt
definition-unique = eindeutig
definition-summary = in der Zusammenfassung
definition-gone = Feld entfernen, Werte behalten
definition-drop = Feld und Werte entfernen
definition-more = Optionen, Verweise, Muster, Hilfe
definition-options = Optionen, eine je Zeile: name=Bezeichnung
definition-targets = Namen der Typen, auf die es verweist, einer je Zeile
definition-regex = Muster (regulärer Ausdruck)
definition-help = Hilfe
definition-enforce = Neue Regeln gelten nur für neue Werte
plan = Plan
plan-show = Zeigen, was sich ändert
plan-nothing = Nichts ändert sich.
plan-unfit = { $unfit } von { $total } Objekten würden nicht passen.
plan-moved = { $count ->
    [one] Die Werte von { $count } Objekt ändern sich.
   *[other] Die Werte von { $count } Objekten ändern sich.
}
plan-allowed = erlaubt
plan-needs-check = gespeicherte Werte könnten dagegen verstoßen
plan-needs-migration = gespeicherte Werte müssen sich ändern
plan-refused = abgelehnt
people = Benutzer und Gruppen
people-count = { $count } Benutzer
people-first-name = Vorname
people-last-name = Nachname
people-email = E-Mail
people-group = Gruppe
people-groups = Gruppen und ihre Rechte
people-new = Neuer Benutzer
people-delete = Diesen Benutzer löschen
overview-soon-none = In den nächsten 90 Tagen kommt kein Tag.
show-soon = Die Tage der nächsten 90 Tage zählen
show-days = Die Änderungen der letzten 14 Tage zählen
several-gone = { $count ->
    [one] { $count } Objekt wurde gelöscht.
   *[other] { $count } Objekte wurden gelöscht.
}
several-clear = Die vorhandenen Werte entfernen
several-empty = Geben Sie einen Wert ein, oder kreuzen Sie an, dass die vorhandenen Werte entfernt werden.
people-first = Dies sind die ersten { $count }.
people-sure = Um diesen Benutzer zu löschen, geben Sie den Benutzernamen ein
conflict-again = Jemand hat dies inzwischen geändert. Öffnen Sie es neu und wiederholen Sie Ihre Eingaben.
