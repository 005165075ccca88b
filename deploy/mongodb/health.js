// Whether the service could work now: the server takes writes, and the service's user can sign in.
const inventory = db.getSiblingDB("inventory");
inventory.auth("inventory", process.env.MONGO_INVENTORY_PASSWORD);
quit(inventory.hello().isWritablePrimary ? 0 : 1);
