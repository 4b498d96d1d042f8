#include "block/core/buffer.h"
