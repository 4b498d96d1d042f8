#include "block/core/nbd_server.h"
