// The rules of tickets a second time, from the sentences of the design and not from src/attach: short, slow,
// by sorting lists of plain keys. It does not decide; it says whether what was written can be right.
#pragma once

#include <string>
#include <vector>

#include "sim/check/support.h"

namespace moor::sim::check::naive {

int priority_of(const std::string& type);
bool is_workload(const lh::AttachmentTicket& ticket);
bool may_be_interrupted(const lh::AttachmentTicket& ticket, const lh::Volume& volume);
bool is_served_by_share(const lh::AttachmentTicket& ticket, const lh::Volume& volume);
bool is_of_one_node(const lh::Volume& volume);
std::string owner_of(const lh::AttachmentTicket& ticket);
// Its parameters go with the volume as it is attached.
bool fits(const lh::AttachmentTicket& ticket, bool frontend_disabled);
// Ids of the tickets that ask for a node, best first.
std::vector<std::string> in_order(const lh::VolumeAttachment& book, bool by_arrival);

}  // namespace moor::sim::check::naive
