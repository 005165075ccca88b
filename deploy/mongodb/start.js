// Initiates the replica set and makes the users, where that was not done before. For mongosh, on the machine of the server:
// until there is a user, only that may do it. Reads MEMBER, and the files that the variables *_FILE name.
const { readFileSync } = require("fs");
const secret = (variable) => readFileSync(process.env[variable], "utf8").trim();
const { MEMBER } = process.env;
const ROOT_PASSWORD = secret("ROOT_PASSWORD_FILE");
const VIEWER_PASSWORD = secret("VIEWER_PASSWORD_FILE");
const [, NAME, ESCAPED, DATABASE] = /^mongodb:\/\/([^:@/]+):([^:@/]+)@[^/]+\/([^/?]+)/.exec(secret("STORE_URI_FILE")) ?? [];
if (!ROOT_PASSWORD || !VIEWER_PASSWORD || !DATABASE) {
  print("start.js: a secret is empty, or store_uri is not mongodb://NAME:PASSWORD@SERVER/DATABASE");
  quit(3);
}
const admin = db.getSiblingDB("admin");

function signIn() {
  try {
    return admin.auth("root", ROOT_PASSWORD).ok === 1;
  } catch (error) {
    return false;
  }
}

let signedIn = signIn();
if (!admin.hello().setName) {
  // For the day when it has more members: see "A replica set of several servers" in docs/operation.md.
  const settings = { electionTimeoutMillis: 2000, heartbeatIntervalMillis: 500, catchUpTimeoutMillis: 500 };
  rs.initiate({ _id: "rs0", members: [{ _id: 0, host: MEMBER }], settings });
  print("start.js: initiated the replica set rs0 of " + MEMBER);
}
while (!admin.hello().isWritablePrimary) {
  sleep(200);
}
if (!signedIn) {
  try {
    admin.createUser({ user: "root", pwd: ROOT_PASSWORD, roles: ["root"] });
    print("start.js: made the user root");
  } catch (error) {
    print("start.js: the password of root is not the one that the first start set: " + error.codeName);
    quit(3);
  }
  signIn();
}
const inventory = db.getSiblingDB(DATABASE);
// What people look at. The collections service.* hold what tokens are signed and checked with.
const SHOWN = [
  "framework.objects", "framework.types", "framework.categories",
  "management.users", "management.groups", "management.users.settings",
];
const privileges = [
  { resource: { db: DATABASE, collection: "" }, actions: ["listCollections", "dbStats"] },
  ...SHOWN.map((collection) => ({ resource: { db: DATABASE, collection }, actions: ["find", "collStats", "listIndexes"] })),
];
if (inventory.getRole("viewer") === null) {
  inventory.createRole({ role: "viewer", privileges, roles: [] });
} else {
  inventory.updateRole("viewer", { privileges, roles: [] });
}
for (const [user, pwd, role] of [
  [NAME, decodeURIComponent(ESCAPED), "readWrite"],
  ["viewer", VIEWER_PASSWORD, "viewer"],
]) {
  if (inventory.getUser(user) === null) {
    inventory.createUser({ user, pwd, roles: [role] });
    print("start.js: made the user " + user);
  } else {
    inventory.updateUser(user, { pwd, roles: [role] });
  }
}
print("start.js: ready");
