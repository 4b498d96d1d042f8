// The makers of all checkers, named after the list of invariants. What each demands stands where it is made.
#pragma once

#include <memory>

#include "sim/checker.h"

namespace moor::sim {

// grant_checks.cc
std::unique_ptr<Checker> invariant_s01_one_writer();
std::unique_ptr<Checker> invariant_s02_epoch_never_falls();
std::unique_ptr<Checker> invariant_s03_epoch_is_one_process();
std::unique_ptr<Checker> invariant_s12_release_is_proven();
std::unique_ptr<Checker> invariant_s44_failed_member_stays_out();

// data_checks.cc
std::unique_ptr<Checker> invariant_s04_replica_obeys_its_floor();
std::unique_ptr<Checker> invariant_s05_members_know_the_epoch();
std::unique_ptr<Checker> invariant_s06_no_member_is_dropped_silently();
std::unique_ptr<Checker> invariant_s11_one_engine_per_node();
std::unique_ptr<Checker> invariant_s44_one_full_disk_stops_nobody();
std::unique_ptr<Checker> liveness_members_are_equal_at_rest();

// attach_checks.cc
std::unique_ptr<Checker> invariant_s07_one_owner();
std::unique_ptr<Checker> invariant_s09_through_empty();
std::unique_ptr<Checker> invariant_s10_current_node_is_true();
std::unique_ptr<Checker> invariant_s15_satisfied_means_attached();

// decision_checks.cc
std::unique_ptr<Checker> rule_decisions_are_about_what_is();
std::unique_ptr<Checker> invariant_s11_a_start_is_heard_of_before_its_stop();

// move_checks.cc
std::unique_ptr<Checker> invariant_s21_two_nodes_at_most();
std::unique_ptr<Checker> invariant_s22_only_the_named_acknowledge();
std::unique_ptr<Checker> invariant_s23_one_side_is_left();
std::unique_ptr<Checker> invariant_s24_confirm_is_final();
std::unique_ptr<Checker> invariant_s24_the_record_chooses();
std::unique_ptr<Checker> invariant_s25_the_holder_is_kept();
std::unique_ptr<Checker> liveness_l05_every_move_ends();

// object_checks.cc
std::unique_ptr<Checker> invariant_s32_nothing_outlives_its_volume();
std::unique_ptr<Checker> invariant_s33_directory_of_one_volume();
std::unique_ptr<Checker> invariant_s37_attach_limit();
std::unique_ptr<Checker> invariant_s38_no_write_is_lost();
std::unique_ptr<Checker> invariant_s39_only_the_leader_decides();
std::unique_ptr<Checker> invariant_s40_a_watch_has_no_gap();
std::unique_ptr<Checker> invariant_s45_limits_are_written_down();
std::unique_ptr<Checker> rule_agent_stops_only_what_it_is_told_to();

// naive_tickets.cc, naive_grants.cc
std::unique_ptr<Checker> invariant_s18_no_workload_is_interrupted();
std::unique_ptr<Checker> invariant_s19_the_best_ticket_wins();
std::unique_ptr<Checker> invariant_s20_reservation_keeps_others_away();
std::unique_ptr<Checker> naive_model_of_grants();

// live_checks.cc
std::unique_ptr<Checker> liveness_l01_tickets_are_satisfied();
std::unique_ptr<Checker> liveness_l03_unwanted_is_detached();
std::unique_ptr<Checker> liveness_l06_deletions_end();
std::unique_ptr<Checker> liveness_l07_tickets_of_the_gone_retire();
std::unique_ptr<Checker> liveness_l08_comes_to_rest();
std::unique_ptr<Checker> liveness_l10_every_wait_is_explained();
std::unique_ptr<Checker> liveness_l11_what_returns_serves();
std::unique_ptr<Checker> rule_status_mirrors_the_grant();

}  // namespace moor::sim
