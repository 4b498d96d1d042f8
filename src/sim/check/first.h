// The first rules: enough to know that the world is right.
#pragma once

#include <memory>

#include "sim/checker.h"

namespace moor::sim {

// Every RW member of a detached volume holds what clients were promised, and all hold the same.
std::unique_ptr<Checker> invariant_s01_acknowledged_data_stays();
// The Grant's epoch never goes down, and no replica's floor does.
std::unique_ptr<Checker> invariant_s02_epochs_only_grow();
// No two engine processes ever have the same epoch of a volume.
std::unique_ptr<Checker> invariant_s03_an_epoch_has_one_engine();
// The Grant passes from node to node only over a released one.
std::unique_ptr<Checker> invariant_s07_one_node_is_granted();
// status.currentNodeID is set only while the Grant is that node's, and cleared only when nobody has it.
std::unique_ptr<Checker> invariant_s10_current_node_means_attached();
// After healing: a volume with tickets has one that is satisfied.
std::unique_ptr<Checker> invariant_l01_tickets_are_satisfied();
// After healing: a volume without tickets is detached.
std::unique_ptr<Checker> invariant_l03_no_ticket_means_detached();

}  // namespace moor::sim
