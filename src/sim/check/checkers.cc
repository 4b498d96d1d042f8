#include "sim/check/first.h"
#include "sim/checker.h"

namespace moor::sim {

const std::vector<CheckerEntry>& checkers() {
  static const std::vector<CheckerEntry> all{
      {"invariant_s01_acknowledged_data_stays", invariant_s01_acknowledged_data_stays},
      {"invariant_s02_epochs_only_grow", invariant_s02_epochs_only_grow},
      {"invariant_s03_an_epoch_has_one_engine", invariant_s03_an_epoch_has_one_engine},
      {"invariant_s07_one_node_is_granted", invariant_s07_one_node_is_granted},
      {"invariant_s10_current_node_means_attached", invariant_s10_current_node_means_attached},
      {"invariant_l01_tickets_are_satisfied", invariant_l01_tickets_are_satisfied},
      {"invariant_l03_no_ticket_means_detached", invariant_l03_no_ticket_means_detached},
  };
  return all;
}

}  // namespace moor::sim
