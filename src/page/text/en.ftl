# The texts of the page in English. Every key is in each file of this folder, with the same variables.
product = Inventory
skip = Skip to the content
sign-in = Sign in
sign-in-name = User name
sign-in-password = Password
sign-in-failed = The user name or the password is wrong.
sign-in-later = Too many failed attempts. Try again in { $seconds } seconds.
sign-in-again = Your session has ended. Sign in to continue.
sign-in-kept = What you typed is kept. Sign in to save it.
sign-in-done = You are signed in again. What you typed was not saved yet.
sign-in-resume = Save what I typed
sign-out = Sign out
signed-in-as = Signed in as
search = Search
search-hint = Number or text
search-title = Search: { $text }
search-none = Nothing found for “{ $text }”.
search-ask = Type a number of an object, or words of its values.
search-incomplete = The index of words is still being made. Objects may be missing.
found-more = The first { $count } objects. There are more: add a word.
found = { $count ->
    [one] { $count } object found
   *[other] { $count } objects found
}
menu = Types
uncategorised = Other types
no-types = There are no types that you may see.
overview = Overview
overview-text = Choose a type, or search for an object.
objects = { $count ->
    [one] { $count } object
   *[other] { $count } objects
}
object-number = Object { $id }
number = No.
active = Active
inactive = Inactive
yes = Yes
no = No
any = Any
filter = Filter
filter-clear = Remove filters
filter-written = Written filter
filter-written-hint = For those who know MongoDB's query language, for instance {"{"}"f.units": {"{"}"$gt": 2{"}"}{"}"}
filter-contains = { $label } contains
filter-from = { $label } from
filter-to = { $label } to
filter-is = { $label } is
filter-refers = { $label } refers to
from = from
to = to
columns = Columns
columns-show = Show these columns
sort-up = sorted, smallest first
sort-down = sorted, largest first
sort-by = Sort by { $label }
next-page = Next page
first-page = First page
export-csv = CSV
export-xlsx = Excel
export-as = Export as
new = New
new-title = New: { $type }
edit = Edit
edit-title = Edit: { $name }
delete = Delete
delete-title = Delete: { $name }
save = Save
create = Create
cancel = Cancel
required = required
optional-none = None
changed-now = Saved.
created-now = Created.
errors-title = There is a problem
errors-text = Nothing was saved. Correct what is marked, then save again.
conflict-title = Somebody changed this object meanwhile
conflict-text = { $who } changed it on { $when }. What you typed is kept. Check the marked fields, then save again.
conflict-field = Meanwhile it became: { $value }
conflict-taken = You had not changed it, so the new value is taken.
password-hint = Leave it empty to keep what is stored.
password-clear = Remove what is stored
password-show = Show
reference-hint = A number, or a part of the name. { $types }
reference-hint-several = One a line: a number, or a part of the name. { $types }
reference-which = Several objects fit “{ $text }”. Which one?
reference-none-found = No object fits “{ $text }”.
reference-too-many = More than { $count } objects fit “{ $text }”. Type more of the name.
time-hint = In UTC
not-editable = A value of this kind cannot be edited here.
not-a-number = Type a number.
hidden = hidden from you
nowhere = leads to an object that does not exist ({ $id })
empty = empty
links = Links
refers-here = Refers to it
refers-none = No object that you may see refers to it.
refers-all = All { $count }
about = About this object
created-at = Created
edited-at = Changed
version = Version
by = by { $who }
history = History
history-all = Whole history
history-none = There is no history.
unknown-user = Somebody
history-create = { $who } created it.
history-import = { $who } imported it.
history-delete = { $who } deleted it.
history-revert = { $who } put back an earlier state.
history-clean = { $who } brought its fields in line with the type.
history-outside = Another tool changed it.
history-activate = { $who } activated it.
history-deactivate = { $who } deactivated it.
history-edit = { $who } changed it.
history-field = { $label }: from “{ $old }” to “{ $new }”
history-set = { $label }: set to “{ $new }”
history-cleared = { $label }: “{ $old }” removed
history-touched = { $label }: changed
history-comment = Comment: { $text }
history-look = Look at this state
past = This is the state of { $when }. It is not the present one.
past-present = Show the present state
past-back = Put this state back
moment = Moment
moment-hint = A day and time in UTC, as 2026-01-31T12:00:00Z, or the number of an entry
moment-go = Show
delete-ask = Delete this object?
delete-refers = { $count ->
    [one] { $count } object refers to it.
   *[other] { $count } objects refer to it.
}
delete-refers-none = No object that you may see refers to it.
delete-keep = Keep these references. They will lead nowhere.
delete-clear = Clear these references.
delete-refuse = Do not delete it while objects refer to it.
delete-references = What happens to the references?
delete-refused = It was not deleted: objects refer to it. Choose another way, or change these objects first.
delete-do = Delete the object
deleted-now = Object { $id } was deleted.
undo = Undo
restored-now = The object is back.
changes = What changed
changes-none = Nothing changed.
deleted-objects = Deleted objects
deleted-none = No object was deleted.
restore = Restore
inactive-type = This type is inactive. Its objects can only be read.
error-title = That did not work
error-back = Back to the overview
error-missing = This does not exist, or you may not see it.
error-forbidden = You may not do this.
error-busy = The service has much to do. Try again in a moment.
error-forged = This form is too old, or it comes from another site. Nothing was changed. Open the page again and repeat.
forward = Continue
overview-types = Objects by type
overview-values = Objects by the values of a field
overview-by = Field
overview-soon = Days that come soon
overview-days = Changes a day
within-days = within { $days } days
count = Number
day = Day
type = Type
field = Field
show = Show
changes-who = by (user name)
graph = Graph
graph-title = Graph: { $name }
graph-direction = Show
graph-both = what it refers to, and what refers to it
graph-out = what it refers to
graph-in = what refers to it
graph-depth = Steps
graph-none = It refers to no object that you may see, and none refers to it.
graph-cut = Objects with a dashed frame have further neighbours.
graph-file = Save as SVG
graph-from = Object
graph-field = refers by
graph-to = to
choose = Choose object { $id }
several = Change several objects
several-ticked = Change those that are ticked
several-all = Change all { $count } found
several-none = No object was chosen. Go back and tick the objects.
several-set = Set a field
several-change = { $count ->
    [one] Change { $count } object
   *[other] Change { $count } objects
}
several-activate = { $count ->
    [one] Activate { $count } object
   *[other] Activate { $count } objects
}
several-deactivate = { $count ->
    [one] Deactivate { $count } object
   *[other] Deactivate { $count } objects
}
several-delete = { $count ->
    [one] Delete { $count } object
   *[other] Delete { $count } objects
}
several-sure = Type { $count } to confirm
several-done = { $count ->
    [one] { $count } object was changed.
   *[other] { $count } objects were changed.
}
import = Import
import-title = Import: { $type }
import-rows = Rows
import-rows-hint = Copy cells from a spreadsheet and paste them here, or the text of a CSV file. The first row has the names or labels of fields:
import-key = Rows change the object with the same
import-key-none = number (public_id), or make new objects
import-decimal = Decimals
import-dates = Dates
import-true = Words for yes
import-false = Words for no
import-again = Make the objects again, although these rows were imported within the last day
import-check = Check only
import-would = Nothing was changed yet. New objects: { $created }; changed: { $updated }; as they were: { $unchanged }.
import-did = Imported. New objects: { $created }; changed: { $updated }; as they were: { $unchanged }.
import-partly = Stored before that: { $created } new objects, { $updated } changed. Import the same rows again to complete them.
import-failed = { $count ->
    [one] { $count } row cannot be imported, so no row is.
   *[other] { $count } rows cannot be imported, so no row is.
}
import-warnings = Please look at these
import-line = Line
import-reason = What is wrong
import-more = { $count ->
    [one] { $count } more is not shown.
   *[other] { $count } more are not shown.
}
import-earlier = These rows were imported within the last day. Nothing was changed now. Tick the box below to make their objects once more.
saved = Saved lists
saved-name = Name
saved-keep = Save this list
saved-forget = Remove { $name }
definition = Definition
definition-title = Definition: { $type }
definition-new = New type
definition-label = Label
definition-name = Name
definition-description = Description
definition-fields = Fields
definition-hint = Values follow a field that gets another name or kind. Look at the plan before you save.
definition-new-field = New field
definition-kind = Kind
definition-place = Place
definition-section = Section
definition-unique = unique
definition-summary = in the summary line
definition-gone = remove the field, keep its values
definition-drop = remove the field and its values
definition-more = Options, references, pattern, help
definition-options = Options, one a line: name=Label
definition-targets = Names of the types that it refers to, one a line
definition-regex = Pattern (regular expression)
definition-help = Help
definition-enforce = New rules are for new values alone
plan = Plan
plan-show = Show what changes
plan-nothing = Nothing changes.
plan-unfit = { $unfit } of { $total } objects would not fit.
plan-moved = { $count ->
    [one] The values of { $count } object change.
   *[other] The values of { $count } objects change.
}
plan-allowed = allowed
plan-needs-check = stored values may break it
plan-needs-migration = stored values must change
plan-refused = refused
people = Users and groups
people-count = { $count ->
    [one] { $count } user
   *[other] { $count } users
}
people-first-name = First name
people-last-name = Last name
people-email = E-mail
people-group = Group
people-groups = Groups and their rights
people-new = New user
people-delete = Delete this user
overview-soon-none = No day comes within 90 days.
show-soon = Count the days of the next 90 days
show-days = Count the changes of the last 14 days
several-gone = { $count ->
    [one] { $count } object was deleted.
   *[other] { $count } objects were deleted.
}
several-clear = Remove the values that are there
several-empty = Type a value, or tick that the values that are there are removed.
people-first = These are the first { $count }.
people-sure = To delete this user, type the user name
conflict-again = Somebody changed this meanwhile. Open it again, and repeat what you typed.
