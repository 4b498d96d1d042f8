#include "block/core/nbd_client.h"
