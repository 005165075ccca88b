// Initiates the replica set and makes the users, where that was not done before. For mongosh, on the machine of the server:
// until there is a user, only that may do it. Reads MEMBER, MONGO_ROOT_PASSWORD, MONGO_INVENTORY_PASSWORD.
const { MEMBER, MONGO_ROOT_PASSWORD, MONGO_INVENTORY_PASSWORD } = process.env;
const admin = db.getSiblingDB("admin");

function signIn() {
  try {
    return admin.auth("root", MONGO_ROOT_PASSWORD).ok === 1;
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
    admin.createUser({ user: "root", pwd: MONGO_ROOT_PASSWORD, roles: ["root"] });
    print("start.js: made the user root");
  } catch (error) {
    print("start.js: MONGO_ROOT_PASSWORD is not the one that the first start set: " + error.codeName);
    quit(3);
  }
  signIn();
}
const inventory = db.getSiblingDB("inventory");
if (inventory.getUser("inventory") === null) {
  inventory.createUser({ user: "inventory", pwd: MONGO_INVENTORY_PASSWORD, roles: ["readWrite"] });
  print("start.js: made the user inventory");
} else {
  inventory.changeUserPassword("inventory", MONGO_INVENTORY_PASSWORD);
}
print("start.js: ready");
