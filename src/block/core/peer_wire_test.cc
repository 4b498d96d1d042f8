#include "block/core/peer_wire.h"
