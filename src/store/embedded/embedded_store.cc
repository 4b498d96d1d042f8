#include "store/embedded/embedded_store.h"

namespace moor::store {

Result<std::unique_ptr<Store>> open_embedded_store(Executor& executor, const std::filesystem::path& directory,
                                                   EmbeddedOptions options) {
  TRY(auto opened,
      embedded::SqliteJournal::open(executor, {directory, std::move(options.vfs)}, options.checkpoint));
  TRY(auto store,
      JournaledStore::open(executor, std::move(opened.first), std::move(opened.second), options.journaled));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace moor::store
