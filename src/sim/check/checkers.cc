#include "sim/check/checks.h"
#include "sim/check/first.h"

namespace moor::sim {

const std::vector<CheckerEntry>& checkers() {
#define CHECKER(name) \
  { #name, name }
  static const std::vector<CheckerEntry> all = {
      CHECKER(invariant_s01_one_writer),
      CHECKER(invariant_s01_acknowledged_data_stays),
      CHECKER(invariant_s02_epoch_never_falls),
      CHECKER(invariant_s03_epoch_is_one_process),
      CHECKER(invariant_s04_replica_obeys_its_floor),
      CHECKER(invariant_s05_members_know_the_epoch),
      CHECKER(invariant_s06_no_member_is_dropped_silently),
      CHECKER(invariant_s07_one_owner),
      CHECKER(invariant_s07_one_node_is_granted),
      CHECKER(invariant_s09_through_empty),
      CHECKER(invariant_s10_current_node_is_true),
      CHECKER(invariant_s11_one_engine_per_node),
      CHECKER(invariant_s11_a_start_is_heard_of_before_its_stop),
      CHECKER(invariant_s12_release_is_proven),
      CHECKER(invariant_s15_satisfied_means_attached),
      CHECKER(invariant_s18_no_workload_is_interrupted),
      CHECKER(invariant_s19_the_best_ticket_wins),
      CHECKER(invariant_s20_reservation_keeps_others_away),
      CHECKER(invariant_s21_two_nodes_at_most),
      CHECKER(invariant_s22_only_the_named_acknowledge),
      CHECKER(invariant_s23_one_side_is_left),
      CHECKER(invariant_s24_confirm_is_final),
      CHECKER(invariant_s24_the_record_chooses),
      CHECKER(invariant_s25_the_holder_is_kept),
      CHECKER(invariant_s32_nothing_outlives_its_volume),
      CHECKER(invariant_s33_directory_of_one_volume),
      CHECKER(invariant_s37_attach_limit),
      CHECKER(invariant_s38_no_write_is_lost),
      CHECKER(invariant_s39_only_the_leader_decides),
      CHECKER(invariant_s40_a_watch_has_no_gap),
      CHECKER(invariant_s44_failed_member_stays_out),
      CHECKER(invariant_s44_one_full_disk_stops_nobody),
      CHECKER(invariant_s45_limits_are_written_down),
      CHECKER(naive_model_of_grants),
      CHECKER(rule_decisions_are_about_what_is),
      CHECKER(rule_agent_stops_only_what_it_is_told_to),
      CHECKER(liveness_l01_tickets_are_satisfied),
      CHECKER(liveness_l03_unwanted_is_detached),
      CHECKER(liveness_l05_every_move_ends),
      CHECKER(liveness_l06_deletions_end),
      CHECKER(liveness_l07_tickets_of_the_gone_retire),
      CHECKER(liveness_l08_comes_to_rest),
      CHECKER(liveness_l10_every_wait_is_explained),
      CHECKER(liveness_l11_what_returns_serves),
      CHECKER(liveness_members_are_equal_at_rest),
      CHECKER(rule_status_mirrors_the_grant),
  };
#undef CHECKER
  return all;
}

}  // namespace moor::sim
