#include "block/core/control_protocol.h"
