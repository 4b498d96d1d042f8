/* The parts that act: Link (a replica serving one engine's connections), Engine, World. Included by grant.pml.
 * Every option is one indivisible step; where a step has several outcomes, each outcome is an option. */

/* ---- the Grant ---- */

inline grant_changed(e) {
  for (i : 0 .. NE - 1) {
    if
    :: i != e -> fresh[i] = 0
    :: else
    fi
#ifdef PLANT_CAS_ABANDON
    ; ofresh[i] = 0
#endif
  }
  skip
}

inline read_grant(e) {
  for (i : 0 .. NR - 1) {
    VM(e, i) = gm[i]
  }
  vgen[e] = ggen; vunp[e] = gunp; vexp[e] = gexp; fresh[e] = 1;
#ifdef PLANT_TRUST_RESTORED
  vunp[e] = 0;
#endif
}

/* ---- engine helpers ---- */

/* questions that an engine asks about its members */
#define LOST(r) (MEMBER(e, r) && L(e, r) == 3)
#define IDLE(r) (!MEMBER(e, r) || (L(e, r) == 2 && WNOW(e, r) == 0))
#define DONE(r) (!MEMBER(e, r) || (L(e, r) == 2 && DN(e, r)))
#define UP_RW(r) (VM(e, r) == RW && L(e, r) == 2)
#define SOURCE(r) (VM(e, r) == RW && LIVE(e, r))
#define ANSWERED(r) (L(e, r) == 2)
#define FORGOTTEN(r) (VM(e, r) == RW && L(e, r) != 2)
#define AWAY(r) (VM(e, r) != RW)
/* A region is cleared only when all of it is synced and no member is away. */
#ifdef PLANT_CLEAR_UNSYNCED
#define MAY_CLEAR (!ANY(AWAY))
#else
#ifdef PLANT_CLEAR_AWAY
#define MAY_CLEAR (fld[e])
#else
#define MAY_CLEAR (fld[e] && !ANY(AWAY))
#endif
#endif
#ifdef PLANT_NO_GEN_STORE
#define STORED(r) (VM(e, r) != RW || (L(e, r) == 2 && WNOW(e, r) == 0))
#define GEN_OK(r) 1
#else
#define STORED(r) (VM(e, r) != RW || (L(e, r) == 2 && WNOW(e, r) == 0 && AG(e, r) >= vgen[e]))
#define GEN_OK(r) (AG(e, r) >= vgen[e])
#endif
#define PREPARED(r) (VM(e, r) != RW || (L(e, r) == 2 && WNOW(e, r) == 0 && GEN_OK(r) && \
                     (!ud[e] || r == src[e] || DN(e, r))))
#ifdef PLANT_ACK_EARLY
#define ACKABLE(r) (!MEMBER(e, r) || L(e, r) == 3 || (L(e, r) == 2 && DN(e, r)))
#else
#define ACKABLE(r) DONE(r)
#endif
/* A copy of an abandoned resync may still be under way to a member; until it is answered that member is no source. */
#ifdef PLANT_COPY_IN_FLIGHT
#define QUIET(r) 1
#else
#define QUIET(r) (L(e, r) != 2 || WNOW(e, r) == 0)
#endif
#define MAY_DECIDE (ph[e] == P_HELLO && ALL(QUIET) && ((!vunp[e] && ANY(UP_RW)) || (vunp[e] && ALL(ANSWERED))))

#define WANTS_COPY(e, r) (VM(e, r) == RW && L(e, r) == 2 && WNOW(e, r) == 0 && AG(e, r) >= vgen[e] && ud[e] && \
                          r != src[e] && !DN(e, r) && LIVE(e, src[e]))

inline die(e) {
  printf("engine %d exits in phase %d\n", e, ph[e]);
  ph[e] = P_DEAD; vgen[e] = 0; vunp[e] = 0; vexp[e] = 0; fresh[e] = 0; cas[e] = 0; ret[e] = 0; ngen[e] = 0; nexp[e] = 0;
  src[e] = 0; ud[e] = 0; cur[e] = 0; fld[e] = 0; rbr[e] = 0;
  for (j : 0 .. NR - 1) {
    VM(e, j) = 0; NM(e, j) = 0; L(e, j) = 0; S(e, j) = 0; DN(e, j) = 0; AC(e, j) = 0; AD(e, j) = 0; AG(e, j) = 0
  }
}

/* A new session to replica r. */
inline hello(e, r) {
  S(e, r) = S(e, r) + 1; L(e, r) = 1; DN(e, r) = 0; WNOW(e, r) = REQ(K_HELLO, 0)
}

/* The engine lets go of a connection. What is under way may still arrive as long as the replica serves it. */
inline let_go(e, r, how) {
  if
  :: S(e, r) > 0 && WNOW(e, r) >= 16 && !OPEN(e, r, S(e, r) - 1) -> WNOW(e, r) = 0
  :: else
  fi;
  printf("engine %d lets replica %d go (%d)\n", e, r, how);
  L(e, r) = how; DN(e, r) = 0; AC(e, r) = 0; AD(e, r) = 0; AG(e, r) = 0
}

inline send_all(e, what) {
  for (i : 0 .. NR - 1) {
    if
    :: MEMBER(e, i) -> DN(e, i) = 0; WNOW(e, i) = what
    :: else
    fi
  }
}

inline want_as_now(e) {
  for (i : 0 .. NR - 1) {
    NM(e, i) = VM(e, i)
  }
  ngen[e] = vgen[e]; nexp[e] = 0
}

inline want_nothing(e) {
  for (i : 0 .. NR - 1) {
    NM(e, i) = 0
  }
  ngen[e] = 0
}

inline begin_hello(e) {
  read_grant(e);
  want_nothing(e);
  printf("engine %d reads the Grant and says HELLO\n", e);
  ph[e] = P_HELLO; cas[e] = 0; nexp[e] = 0; src[e] = 0;
  for (j : 0 .. NR - 1) {
    DN(e, j) = 0;
    if
    :: (VM(e, j) == RW || vunp[e]) && S(e, j) == 0 -> hello(e, j)
    :: else
    fi
  }
  skip
}

/* A serving engine that the Grant no longer names acknowledges nothing once it has lost a member, for its change of
 * the members can never be committed: whether it knows that or not, it has ended. */
#ifdef PLANT_ACK_EARLY
#define DOOMED(e) 0
#else
#define DOOMED(e) (gact != e + 1 && ph[e] > P_DEAD)
#endif
inline lose(e, r) {
  let_go(e, r, 3);
  if
  :: DOOMED(e) -> die(e)
  :: else
  fi
}

inline end_doomed() {
  for (x : 0 .. NE - 1) {
    if
    :: gact != x + 1 && cas[x] && ph[x] != P_STBY -> die(x)
    :: else
    fi
  }
  x = 0
}

/* ---- a replica serves ---- */

#define ACCEPTS(e, r, s) (ep[e] > fe[r] || (ep[e] == fe[r] && fen[r] == (e) && (s) > fs[r]))

inline drop_older(e, r, s) {
  for (i : 0 .. NE - 1) {
    for (j : 0 .. MS - 1) {
      if
      :: W(i, r, j) >= 16 && W(i, r, j) < REQ(K_EXE, 0) ->
#ifdef PLANT_NO_DRAIN
        if
        :: i != e && W(i, r, j) / 8 == K_WR && OPEN(i, r, j) -> W(i, r, j) = REQ(K_EXE, W(i, r, j) % 8)
        :: else -> W(i, r, j) = 0
        fi
#else
#ifdef PLANT_SESSION_NO_DRAIN
        if
        :: i == e && W(i, r, j) / 8 == K_WR && OPEN(i, r, j) -> W(i, r, j) = REQ(K_EXE, W(i, r, j) % 8)
        :: else -> W(i, r, j) = 0
        fi
#else
        W(i, r, j) = 0
#endif
#endif
      :: W(i, r, j) && W(i, r, j) < 16 && ep[i] < ep[e] -> W(i, r, j) = 0 /* would be refused */
      :: else
      fi
    }
  }
}

inline take_hello(e, r, s) {
  if
  :: ACCEPTS(e, r, s) ->
    drop_older(e, r, s);
    fe[r] = ep[e]; fen[r] = e; fs[r] = s; ro[r] = 1;
    if
    :: me ->
      L(e, r) = 2; AD(e, r) = dirty[r]; AG(e, r) = gen[r];
#ifdef PLANT_SESSION_OLD_ANSWER
      if
      :: s == 0 -> AC(e, r) = (served[r] != 0)
      :: else -> AC(e, r) = AC(e, r) | (served[r] != 0)
      fi
#else
      AC(e, r) = (served[r] != 0)
#endif
    :: else
    fi;
#ifdef PLANT_HELLO_CONTINUITY
    served[r] = ep[e]
#endif
  :: else ->
    if
    :: me && (ep[e] < fe[r] || fen[r] != e) -> die(e)
    :: else -> LANDMARK(6) /* an older session of the same engine is refused */
    fi
  fi
}

inline put(r, val, mark) {
  mem[r] = val;
#ifndef PLANT_NO_DIRTY
  dirty[r] = dirty[r] | mark;
#endif
}

#ifdef PLANT_COPY_NO_DIRTY
#define COPY_MARKS 0
#else
#define COPY_MARKS 1
#endif

inline serve_request(e, r, s, spill) {
  k = W(e, r, s) / 8; v = W(e, r, s) % 8; W(e, r, s) = 0;
  me = (s + 1 == S(e, r) && (L(e, r) == 1 || L(e, r) == 2));
  printf("replica %d serves engine %d session %d: request %d value %d (spill %d, floor %d/%d)\n", r, e, s, k, v, spill, fe[r], fs[r]);
  if
  :: k == K_HELLO -> take_hello(e, r, s)
  :: else ->
    MECHANISM(OPEN(e, r, s)); /* S4: only the engine and session that hold the floor */
    if
    :: spill -> disk[r] = mem[r]
    :: else
    fi;
    if
    :: k == K_WR || k == K_EXE -> put(r, v, 1)
    :: k == K_CP -> put(r, v, COPY_MARKS)
    :: k == K_FL -> disk[r] = mem[r]
    :: k == K_GEN -> gen[r] = v
    :: k == K_SRV -> served[r] = ep[e]
    :: k == K_CLR -> dirty[r] = 0
    :: k == K_RCP ->
      if
      :: v != NOCOPY -> put(r, v, COPY_MARKS)
      :: else
      fi;
#ifndef PLANT_WO_NO_SYNC
      disk[r] = mem[r]
#endif
    :: k == K_FIN -> gen[r] = v; served[r] = ep[e]
    fi;
    if
    :: me && k == K_GEN ->
      AG(e, r) = v;
      if
      :: ph[e] == P_PREP && WANTS_COPY(e, r) -> WNOW(e, r) = REQ(K_CP, mem[src[e]])
      :: else
      fi
    :: me && k != K_GEN -> DN(e, r) = 1
    :: else
    fi;
    skip
  fi;
  x = fen[r]; /* what a reader would see now */
  if
  :: ph[x] >= P_SERVE && ph[x] != P_WRW && ms == x + 1 -> check_members(x)
  :: else
  fi;
  k = 0; v = 0; x = 0; me = 0
}

#define PENDING(s) (W(e, r, s) && (W(e, r, s) < 16 || W(e, r, s) >= REQ(K_EXE, 0) || OPEN(e, r, s)))
/* Before data is overwritten the page cache may have written the old data out. */
#define MAY_SPILL(s) (PENDING(s) && mem[r] != disk[r] && (W(e, r, s) / 8 == K_WR || W(e, r, s) / 8 == K_CP || \
                      W(e, r, s) / 8 == K_EXE))

proctype Link(byte e; byte r) {
end: do
  :: d_step { PENDING(0) -> serve_request(e, r, 0, 0) }
  :: d_step { MAY_SPILL(0) -> serve_request(e, r, 0, 1) }
#if MS > 1
  :: d_step { PENDING(1) -> serve_request(e, r, 1, 0) }
  :: d_step { MAY_SPILL(1) -> serve_request(e, r, 1, 1) }
#endif
#if MS > 2
  :: d_step { PENDING(2) -> serve_request(e, r, 2, 0) }
  :: d_step { MAY_SPILL(2) -> serve_request(e, r, 2, 1) }
#endif
  /* the replica has closed the connection, and the engine sees it */
  :: d_step { L(e, r) == 2 && !OPEN(e, r, S(e, r) - 1) ->
#ifdef PLANT_SESSION_OLD_ANSWER
      chg = AC(e, r); let_go(e, r, 3); AC(e, r) = chg
#else
      lose(e, r)
#endif
    }
  /* a cut: the engine sees the connection lost, the replica may not */
  :: d_step { ncut < NCUT && (L(e, r) == 1 || LIVE(e, r)) -> ncut++; lose(e, r) }
  /* start: another try, in a new session */
  :: d_step { ph[e] == P_HELLO && (VM(e, r) == RW || vunp[e]) && (L(e, r) == 3 || L(e, r) == 0) && S(e, r) < MS ->
      hello(e, r) }
#ifdef PLANT_RECONNECT_RW
  /* a living engine takes a lost member back as if nothing had happened, sending again what was under way */
  :: d_step { (ph[e] == P_SERVE || ph[e] == P_WRW) && VM(e, r) == RW && L(e, r) == 3 && S(e, r) < MS ->
      ret[e] = ph[e]; hello(e, r) }
  :: d_step { ph[e] == P_WRW && VM(e, r) == RW && L(e, r) == 2 && WNOW(e, r) == 0 && !DN(e, r) && S(e, r) > 1 ->
      WNOW(e, r) = REQ(K_WR, cur[e]) }
#endif
  /* start and degraded rule: the generation is stored by the remaining members */
  :: d_step { (ph[e] == P_PREP || ph[e] == P_DEGG) && VM(e, r) == RW && L(e, r) == 2 && WNOW(e, r) == 0 &&
      AG(e, r) < vgen[e] -> WNOW(e, r) = REQ(K_GEN, vgen[e]) }
  /* start: resync from the source */
  :: d_step { ph[e] == P_PREP && WANTS_COPY(e, r) -> WNOW(e, r) = REQ(K_CP, mem[src[e]]) }
  /* rebuild: ERR -> WO */
  :: d_step { nrb < NRB && ph[e] == P_SERVE && !ANY(LOST) && VM(e, r) == ERR && S(e, r) < MS ->
      nrb++; want_as_now(e); NM(e, r) = WO; rbr[e] = r; cas[e] = 1; ph[e] = P_RBC1 }
  /* rebuild: copy what differs and sync */
  :: d_step { ph[e] == P_SERVE && ALL(IDLE) && VM(e, r) == WO && ANY(SOURCE) ->
      v = NOCOPY;
      for (i : 0 .. NR - 1) {
        if
        :: VM(e, i) == RW && LIVE(e, i) && (dirty[i] || AD(e, r)) -> v = mem[i]
        :: else
        fi
      }
      DN(e, r) = 0; rbr[e] = r; WNOW(e, r) = REQ(K_RCP, v); v = 0; ph[e] = P_RBW }
  od
}

/* ---- an engine ---- */

/* The in-sync set into NM, judged by the answers; any: some of it is continuous. */
inline judge(e) {
  c = 0; any = 0;
  for (i : 0 .. NR - 1) {
    if
    :: AG(e, i) > c -> c = AG(e, i)
    :: else
    fi
  }
  for (i : 0 .. NR - 1) {
    if
    :: L(e, i) == 2 && ((vunp[e] && AG(e, i) == c) || (!vunp[e] && VM(e, i) == RW)) -> NM(e, i) = RW; any = any | AC(e, i)
    :: else -> NM(e, i) = ERR
    fi
  }
  for (i : 0 .. NR - 1) {
    if
#ifndef PLANT_KEEP_DISCONTINUOUS
    :: NM(e, i) == RW && any && !AC(e, i) -> NM(e, i) = ERR
#endif
    :: else
    fi
  }
}

inline decide(e, source) {
  judge(e);
  if
  :: NM(e, source) == RW ->
    printf("engine %d decides: source %d, some continuous %d\n", e, source, any);
    chg = 0; src[e] = source; nexp[e] = !any;
    /* The union only grows during a start: a member that was copied to is dirty although it answered clean. */
#ifdef PLANT_FORGET_UNION
    ud[e] = 0;
#endif
    for (i : 0 .. NR - 1) {
      DN(e, i) = 0; /* an answer to an earlier try's copy is none to this one */
      if
      :: NM(e, i) == RW -> ud[e] = ud[e] | AD(e, i)
      :: else
      fi;
      if
      :: NM(e, i) != VM(e, i) -> chg = 1
      :: else
      fi
    }
    if
    :: vunp[e] -> ngen[e] = c + 1
    :: else -> ngen[e] = vgen[e] + chg
    fi;
#ifdef TEXT_GENERATION
    /* the page's words: only a change to ERR is stored by the remaining members */
    for (i : 0 .. NR - 1) {
      if
      :: NM(e, i) == RW && !chg -> AG(e, i) = vgen[e]
      :: else
      fi
    }
#endif
    if
    :: chg || !any || vunp[e] -> cas[e] = 1; ph[e] = P_CASW
    :: else -> ph[e] = P_PREP; ngen[e] = 0; store_generation(e)
    fi;
    for (j : 0 .. NR - 1) {
      if
      :: NM(e, j) == ERR && L(e, j) != 0 -> let_go(e, j, 0)
      :: else
      fi
    }
  :: else
  fi;
  if
  :: ph[e] != P_CASW -> want_nothing(e)
  :: else
  fi;
  any = 0; chg = 0; c = 0
}

inline store_generation(e) {
  for (i : 0 .. NR - 1) {
    if
    :: UP_RW(i) && WNOW(e, i) == 0 && AG(e, i) < vgen[e] -> WNOW(e, i) = REQ(K_GEN, vgen[e])
    :: else
    fi
  }
  skip
}

/* Degraded rule: the next Grant change for what is lost, or on to storing the generation. */
inline go_on(e) {
  if
  :: ANY(LOST) && !ANY(UP_RW) -> die(e)
  :: ANY(LOST) && ANY(UP_RW) ->
    want_as_now(e); ngen[e] = vgen[e] + 1; cas[e] = 1; ph[e] = P_DEGC;
    for (i : 0 .. NR - 1) {
      if
      :: LOST(i) -> NM(e, i) = ERR
      :: else
      fi
    }
  :: else -> ph[e] = P_DEGG; store_generation(e)
  fi
}

inline adopt(e) {
  for (i : 0 .. NR - 1) {
    VM(e, i) = NM(e, i); NM(e, i) = 0
  }
  vgen[e] = ngen[e]; vunp[e] = 0; cas[e] = 0; ngen[e] = 0; vexp[e] = gexp
}

inline conflict(e) {
  cas[e] = 0;
  want_nothing(e);
  if
  :: gact != e + 1 -> die(e)
  :: else -> read_grant(e); LANDMARK(7)
  fi
}

inline close_gone(e) {
  for (j : 0 .. NR - 1) {
    if
    :: VM(e, j) == ERR && L(e, j) != 0 -> let_go(e, j, 0)
    :: else
    fi
  }
  skip
}

/* What the engine does when it hears that its change is in the Grant. That it hears so at once loses nothing: it
 * may take its next step as late as it likes. */
inline committed(e) {
  if
  :: ph[e] == P_STBY -> begin_hello(e)
  :: ph[e] == P_CASW -> adopt(e); ph[e] = P_PREP; store_generation(e)
  :: ph[e] == P_DEGC -> adopt(e); close_gone(e); go_on(e)
  :: ph[e] == P_RBC1 -> adopt(e); hello(e, rbr[e]); ph[e] = P_RBH
  :: ph[e] == P_RBC2 ->
    adopt(e); rbr[e] = 0; ph[e] = P_SERVE; LANDMARK(12);
    if
    :: ms == e + 1 -> check_members(e)
    :: else
    fi
  fi
}

/* The server takes the compare-and-swap; lost: the engine tries again and is told of a conflict. */
inline commit(e, lost) {
  if
  :: ph[e] == P_STBY ->
    gact = e + 1; gstb = 0; was[e] = 1; end_doomed()
  :: else ->
    MECHANISM(gact == e + 1);
    for (i : 0 .. NR - 1) {
      MECHANISM(!(gm[i] == ERR && NM(e, i) == RW) || gunp || ph[e] == P_CASW && vunp[e]); /* S44 */
      MECHANISM(!(gm[i] == WO && NM(e, i) == RW) || ph[e] == P_RBC2);
      gm[i] = NM(e, i)
    }
    MECHANISM(ngen[e] >= ggen || gunp);
    ggen = ngen[e]; gunp = 0;
    if
    :: nexp[e] -> gexp = e + 1
    :: else
    fi
  fi;
  grant_changed(e);
  printf("Grant: active %d members %d%d generation %d by engine %d, reply lost %d\n", gact, gm[0], gm[1], ggen, e, lost);
  if
  :: lost -> nlost++; cas[e] = 3
  :: else -> committed(e)
  fi;
  skip
}

proctype Engine(byte e) {
end: do
  /* the store answers */
  :: d_step { cas[e] == 1 && fresh[e] -> commit(e, 0) }
  :: d_step { cas[e] == 1 && fresh[e] && nlost < NLOST -> commit(e, 1) }
  :: d_step { cas[e] == 1 && !fresh[e] -> cas[e] = 3 }

  /* standby */
  :: d_step { ph[e] == P_STBY && cas[e] == 0 ->
#ifdef PLANT_ACTIVATE_NO_CAS
      begin_hello(e)
#else
      fresh[e] = 1;
      if
      :: gact == e + 1 -> begin_hello(e); LANDMARK(8)
      :: gact != e + 1 && gstb == e + 1 -> cas[e] = 1
      :: else -> die(e)
      fi
#endif
    }
  :: d_step { ph[e] == P_STBY && cas[e] == 3 -> cas[e] = 0 }
#ifdef PLANT_ACTIVATE_NO_START_RULE
  :: d_step { ph[e] == P_HELLO && rbr[e] == 7 && !ANY(FORGOTTEN) ->
      ph[e] = P_SERVE; rbr[e] = 0; ghost_serve(e) }
#endif

  /* start */
  :: d_step { MAY_DECIDE && L(e, 0) == 2 -> decide(e, 0) }
  :: d_step { MAY_DECIDE && L(e, 1) == 2 -> decide(e, 1) }
#if NR > 2
  :: d_step { MAY_DECIDE && L(e, 2) == 2 -> decide(e, 2) }
#endif
  :: d_step { ph[e] == P_CASW && cas[e] == 3 ->
      conflict(e);
      if
      :: ph[e] == P_CASW -> begin_hello(e)
      :: else
      fi }
#ifdef PLANT_CAS_ABANDON
  :: d_step { ph[e] == P_CASW && cas[e] == 1 && fresh[e] && nlost < NLOST ->
      nlost++; ofresh[e] = 1; ogen[e] = ngen[e]; oexp[e] = nexp[e];
      for (i : 0 .. NR - 1) {
        om_[e * NR + i] = NM(e, i)
      }
      begin_hello(e) }
  :: d_step { ofresh[e] ->
      for (i : 0 .. NR - 1) {
        gm[i] = om_[e * NR + i]
      }
      ggen = ogen[e];
      if
      :: oexp[e] -> gexp = e + 1
      :: else
      fi;
      grant_changed(NE) }
#endif
  :: d_step { (ph[e] == P_PREP || ph[e] == P_SRVW) && ANY(LOST) ->
      if
      :: gact != e + 1 -> die(e)
      :: else -> begin_hello(e); LANDMARK(9)
      fi }
  :: d_step { ph[e] == P_PREP && ALL(PREPARED) -> send_all(e, REQ(K_SRV, 0)); ph[e] = P_SRVW }
  :: d_step { ph[e] == P_SRVW && ALL(DONE) -> ph[e] = P_SERVE; ghost_serve(e); nexp[e] = 0; ud[e] = 0; src[e] = 0 }

  /* serve */
  :: d_step { ph[e] == P_SERVE && ALL(IDLE) && nv <= NW ->
      cur[e] = nv; ghost_issue(e); send_all(e, REQ(K_WR, nv)); nv++; fld[e] = 0; ph[e] = P_WRW }
  :: d_step { ph[e] == P_WRW && ALL(ACKABLE) -> ghost_ack(e); ph[e] = P_SERVE }
  :: d_step { ph[e] == P_SERVE && ALL(IDLE) && nfl < NFL -> nfl++; send_all(e, REQ(K_FL, 0)); ph[e] = P_FLW }
  :: d_step { ph[e] == P_FLW && ALL(ACKABLE) -> ghost_flushed(e); fld[e] = 1; ph[e] = P_SERVE }
#if NCLR
  :: d_step { ph[e] == P_SERVE && ALL(IDLE) && nclr < NCLR && MAY_CLEAR -> nclr++; send_all(e, REQ(K_CLR, 0)); ph[e] = P_CLRW }
  :: d_step { ph[e] == P_CLRW && ALL(DONE) -> ph[e] = P_SERVE; LANDMARK(10) }
#endif

  /* degraded rule */
  :: d_step { ph[e] >= P_SERVE && cas[e] == 0 && ANY(LOST) ->
      if
      :: ph[e] == P_WRW || ph[e] == P_FLW -> ret[e] = ph[e]
      :: else -> ret[e] = P_SERVE
      fi;
      go_on(e) }
  :: d_step { ph[e] == P_DEGC && cas[e] == 3 ->
      conflict(e);
      if
      :: ph[e] == P_DEGC -> close_gone(e); go_on(e)
      :: else
      fi }
  :: d_step { ph[e] == P_DEGG && ANY(LOST) -> go_on(e) }
  :: d_step { ph[e] == P_DEGG && ALL(STORED) -> ph[e] = ret[e]; ret[e] = 0; LANDMARK(11) }

#if NRB
  /* rebuild */
  :: d_step { ph[e] == P_RBC1 && cas[e] == 3 ->
      conflict(e);
      if
      :: ph[e] == P_RBC1 && VM(e, rbr[e]) == WO -> hello(e, rbr[e]); ph[e] = P_RBH
      :: ph[e] == P_RBC1 && VM(e, rbr[e]) != WO -> ph[e] = P_SERVE
      :: else
      fi }
  :: d_step { ph[e] == P_RBH && L(e, rbr[e]) == 2 -> ph[e] = P_SERVE; rbr[e] = 0 }
  :: d_step { ph[e] == P_RBW && DN(e, rbr[e]) && !ANY(LOST) ->
      DN(e, rbr[e]) = 0; WNOW(e, rbr[e]) = REQ(K_FIN, vgen[e]); ph[e] = P_RBF }
  :: d_step { ph[e] == P_RBF && DN(e, rbr[e]) && !ANY(LOST) ->
      AG(e, rbr[e]) = vgen[e]; want_as_now(e); NM(e, rbr[e]) = RW; cas[e] = 1; ph[e] = P_RBC2 }
  :: d_step { ph[e] == P_RBC2 && cas[e] == 3 ->
      conflict(e);
      if
      :: ph[e] == P_RBC2 -> ph[e] = P_SERVE; rbr[e] = 0
      :: else
      fi }
#endif
  od
}

/* ---- faults and controllers ---- */

inline crash(r, loses) {
  printf("replica %d crashes, loses %d\n", r, loses);
  if
  :: loses -> mem[r] = disk[r]
  :: else -> disk[r] = mem[r]
  fi;
  ro[r] = 0; served[r] = 0;
  for (i : 0 .. NE - 1) {
    for (j : 0 .. MS - 1) {
      if
      :: W(i, r, j) >= 16 -> W(i, r, j) = 0
      :: else
      fi
    }
  }
  skip /* a d_step may not end in a loop */
}

/* All replicas at once; the mask says which of them lose what was not synced. */
inline power_cut(mask) {
  for (x : 0 .. NR - 1) {
    crash(x, (mask >> x) & 1)
  }
  x = 0
}

/* A new engine process takes a new epoch (S3). */
inline new_engine() {
  ghi++; ep[nst] = ghi;
  printf("controller: engine %d gets epoch %d\n", nst, ghi);
  MECHANISM(ghi > mep); /* S2 */
  if
  :: ghi > mep -> mep = ghi
  :: else
  fi;
}

proctype World() {
end: do
  :: d_step { nst < NE -> new_engine(); gact = nst + 1; gstb = 0; was[nst] = 1; grant_changed(NE); end_doomed();
      begin_hello(nst); nst++ }
#if STANDBY
  :: d_step { nst < NE && gact -> new_engine(); gstb = nst + 1; grant_changed(NE); ph[nst] = P_STBY;
#ifdef PLANT_ACTIVATE_NO_START_RULE
      rbr[nst] = 7;
#endif
      nst++ }
#endif
  :: d_step { ncr < NCR && mem[0] != disk[0] -> ncr++; crash(0, 1) }
  :: d_step { ncr < NCR -> ncr++; crash(0, 0) }
  :: d_step { ncr < NCR && mem[1] != disk[1] -> ncr++; crash(1, 1) }
  :: d_step { ncr < NCR -> ncr++; crash(1, 0) }
#if NR > 2
  :: d_step { ncr < NCR && mem[2] != disk[2] -> ncr++; crash(2, 1) }
  :: d_step { ncr < NCR -> ncr++; crash(2, 0) }
#endif
#if NPW
  :: d_step { npw < NPW -> npw++; power_cut(0) }
  :: d_step { npw < NPW -> npw++; power_cut(1) }
  :: d_step { npw < NPW -> npw++; power_cut(2) }
  :: d_step { npw < NPW -> npw++; power_cut(3) }
#if NR > 2
  :: d_step { npw < NPW -> npw++; power_cut(4) }
  :: d_step { npw < NPW -> npw++; power_cut(5) }
  :: d_step { npw < NPW -> npw++; power_cut(6) }
  :: d_step { npw < NPW -> npw++; power_cut(7) }
#endif
#endif
#if RESTORE
  :: d_step { bstate == 0 && !gunp -> printf("store backed up\n"); bstate = 1; bgen = ggen; bhi = ghi;
      for (i : 0 .. NR - 1) {
        bm[i] = gm[i]
      }
      skip }
  :: d_step { bstate == 1 && nst < NE ->
      printf("store restored\n");
      bstate = 2; ggen = bgen; gact = 0; gstb = 0; gunp = 1; bgen = 0;
#ifdef PLANT_RESTORE_EPOCH
      ghi = bhi;
#endif
      bhi = 0;
      for (i : 0 .. NR - 1) {
        gm[i] = bm[i]; bm[i] = 0
      }
      grant_changed(NE); end_doomed() }
#endif
  od
}
