#include "attach/moves.h"

namespace moor::attach {

using model::longhorn::MovePhase;

bool is_moving(const Volume& volume) {
  const auto& move = volume.status.move;
  return move && move->phase != MovePhase::none && move->phase != MovePhase::done;
}

bool is_migration_stale(const Volume& volume) {
  if (volume.spec.migration_node_id.empty()) return false;
  return !is_moving(volume) || volume.status.move->destination_node_id != volume.spec.migration_node_id;
}

std::optional<MoveWish> wished_move(const Book& book, const Roster& roster) {
  const Volume& volume = book.volume;
  if (!volume.spec.migratable || volume.spec.node_id.empty() ||
      volume.status.current_node_id != volume.spec.node_id)
    return std::nullopt;
  const AttachmentTicket* source = nullptr;
  const AttachmentTicket* destination = nullptr;
  const TieBreak tie_break = book.settings.tie_break();
  for (const auto& [id, standing] : roster.standings) {
    const AttachmentTicket& ticket = *standing.ticket;
    if (!standing.chooses || ticket.type != model::longhorn::attacher::kCsi) continue;
    const AttachmentTicket*& side = ticket.node_id == volume.spec.node_id ? source : destination;
    if (side == nullptr || compare_tickets(ticket, *side, tie_break) < 0) side = &ticket;
  }
  if (source == nullptr || destination == nullptr) return std::nullopt;
  return MoveWish{.source_ticket = source->id, .destination_ticket = destination->id};
}

}  // namespace moor::attach
