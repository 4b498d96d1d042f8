/* The actors of move.pml. Each option is one indivisible step. */

/* ---- ghosts: what a client may see ---- */

inline effective(v) {
  if
  :: v != cv -> st[cv] = V_PAST; cv = v; st[v] = V_CUR
  :: else
  fi
}

inline ghost_serve(s, keeps) {
  printf("side %d serves in epoch %d: contents %d, acknowledged %d, session goes on %d\n", s, pe[s], c, cv, keeps);
  MECHANISM(actm & (1 << pe[s])); /* S22: the Grant named it, in this epoch */
  if
  :: ga == s + 1 && gae == pe[s] -> MECHANISM(FLOORS(pe[s])) /* S5, S22 */
  :: else
  fi;
  if
  :: pe[s] > srve ->
    assert(st[c] == V_CUR || st[c] == V_PEND); /* every acknowledged write is there */
    effective(c);
    srv = s; srve = pe[s]
  :: else
  fi;
  /* A session never goes on over what the other side has written since it began. */
  if
  :: keeps ->
    for (i : 0 .. NW) {
      assert(i < base[s] || !(by[1 - s] & (1 << i)) || !(exm[x] & (1 << i)))
    }
  :: else
  fi
}

inline ghost_ack(s) {
  printf("side %d acknowledges write %d in epoch %d\n", s, cl[s], pe[s]);
  if
  :: st[cl[s]] == V_PEND -> assert(srv == s && srve == pe[s]); effective(cl[s]) /* S22: one engine at a time */
  :: else -> assert(st[cl[s]] == V_CUR || st[cl[s]] == V_PAST)
  fi;
  for (i : 0 .. NR - 1) {
    assert(!(gm & (1 << i)) || (exm[i] & (1 << cl[s]))) /* on every RW member, later than a fence too */
  }
  if
  :: srve > pe[s] -> LANDMARK(1)
  :: s == 1 -> LANDMARK(2)
  :: else
  fi
}

/* ---- the Grant ---- */

inline set_active(s, e) {
  MECHANISM(e > gae || ga == 0); /* an old standby never becomes active */
  ga = s + 1; gae = e; gai = inc[s]; actm = actm | (1 << e)
}

inline swap() {
  x = gs - 1;
  MECHANISM(ga != 2 - x || ps[1 - x] != SERVE || pe[1 - x] != gae || hold[1 - x]); /* the source holds its clients */
  printf("the Grant: active := standby, side %d epoch %d\n", x, gse);
#ifdef PLANT_OLD_STANDBY
  set_active(x, pe[x]);
#else
  set_active(x, gse);
#endif
  gai = gsi; gs = 0; gse = 0; gsi = 0;
#ifdef PLANT_FORGET_SOURCE
  he[1 - x] = 0;
#endif
  grant_changed()
}

inline next_epoch() { gep = gep + 1; assert(gep < 15) }

/* ---- processes ---- */

inline clear_process(s) {
  ps[s] = NONE; pe[s] = 0; pstb[s] = 0; pv[s] = 0; hd[s] = 0; lost[s] = 0; hold[s] = 0; want[s] = 0; sw[s] = 0; plast[s] = 0; ans[s] = 0
}

inline close_session(s) { open[s] = 0; osb[s] = 0; cl[s] = 0; base[s] = 0 }

inline superseded(s) {
  printf("side %d, epoch %d, is superseded (hold %d)\n", s, pe[s], hold[s]);
  if
  :: hold[s] -> ps[s] = HELD; hd[s] = 0; sw[s] = 0
  :: else -> clear_process(s)
  fi
}

inline use_epoch(s, e) {
  assert(!(used & (1 << e))); /* S3: one process per epoch */
  used = used | (1 << e);
  rec[s] = e
}

inline send(s) {
  for (i : 0 .. NR - 1) {
    if
    :: (pv[s] & (1 << i)) && fl[i] == pe[s] -> INF(s, i) = cl[s]
    :: else
    fi
  }
}

/* The start rule's end, with member r as the source of the resync: all RW members agree, then it serves. */
inline finish_start(s, r) {
  c = mem[r]; x = r;
  for (i : 0 .. NR - 1) {
    if
    :: pv[s] & (1 << i) -> mem[i] = mem[r]; exm[i] = exm[r];
#ifndef PLANT_WROTE_NOT_COPIED
      if
      :: sw[s] > wrote[i] -> wrote[i] = sw[s] /* the mark goes with the data */
      :: else
      fi
#endif
    :: else
    fi
  }
  if
  :: open[s] && osb[s] -> base[s] = nv; osb[s] = 0; ghost_serve(s, 0) /* its caches were dropped at activation */
  :: open[s] && !osb[s] && sw[s] > plast[s] -> close_session(s); want[s] = 0; ghost_serve(s, 0); LANDMARK(3)
  :: open[s] && !osb[s] && sw[s] <= plast[s] -> ghost_serve(s, 1);
    if
    :: ps[s] == TAKE -> LANDMARK(4)
    :: else
    fi
  :: else -> ghost_serve(s, 0)
  fi;
#ifdef PLANT_NO_RESEND
  if
  :: ps[s] != TAKE -> ans[s] = 0
  :: else
  fi;
#else
  ans[s] = 0;
#endif
  ps[s] = SERVE; pstb[s] = 0; want[s] = 0; hd[s] = 0; sw[s] = 0; plast[s] = NOBOUND;
#ifdef PLANT_NO_RESEND
  for (i : 0 .. NR - 1) { /* old answers count, only the others are asked again */
    if
    :: cl[s] && (pv[s] & ~ans[s] & (1 << i)) -> INF(s, i) = cl[s]
    :: else
    fi
  }
#else
  if
  :: cl[s] -> send(s)
  :: else
  fi;
#endif
  c = 0; x = 0
}

inline say_hello(s, r) {
  if
  :: fl[r] > pe[s] -> superseded(s)
  :: else ->
    printf("replica %d has floor %d\n", r, pe[s]);
    fl[r] = pe[s]; INF(0, r) = 0; INF(1, r) = 0; hd[s] = hd[s] | (1 << r);
    if
    :: wrote[r] > sw[s] -> sw[s] = wrote[r]
    :: else
    fi
  fi
}

inline execute(s, r) {
  printf("replica %d executes write %d of side %d\n", r, INF(s, r), s);
  mem[r] = INF(s, r); exm[r] = exm[r] | (1 << INF(s, r));
#ifdef PLANT_WROTE_DIRTY
  if
  :: !dirty[r] -> wrote[r] = fl[r]; dirty[r] = 1
  :: else
  fi;
#else
#ifndef PLANT_NO_WROTE
  wrote[r] = fl[r];
#endif
#endif
  if
  :: (ps[s] == SERVE || ps[s] == HELD) && pe[s] == fl[r] && cl[s] == INF(s, r) && (pv[s] & ~lost[s] & (1 << r)) -> ans[s] = ans[s] | (1 << r)
  :: else
  fi;
  INF(s, r) = 0
}

#define LINK(s, r) \
  :: d_step { (ps[s] == HELLO || ps[s] == TAKE) && (pv[s] & (1 << r)) && !((hd[s] | lost[s]) & (1 << r)) -> say_hello(s, r) } \
  :: d_step { (ps[s] == HELLO || ps[s] == TAKE) && hd[s] == pv[s] && (pv[s] & (1 << r)) && ALL_MINE(s) -> finish_start(s, r) } \
  :: d_step { INF(s, r) -> execute(s, r) } \
  :: d_step { !quiet && ncut < NCUT && (ps[s] == SERVE || ps[s] == HELLO || ps[s] == TAKE) && (pv[s] & (1 << r)) && !lost[s] && pv[s] != (1 << r) -> \
      ncut++; printf("side %d loses member %d\n", s, r); lost[s] = 1 << r; ans[s] = ans[s] & ~(1 << r); hd[s] = hd[s] & ~(1 << r) }

#ifdef PLANT_NO_HOLD
#define WANTS_HOLD(s) 0
#else
#define WANTS_HOLD(s) (ga == s + 1 -> gse : 0)
#endif

#define ENGINE(s) \
  :: d_step { ps[s] == BOOT -> \
      if \
      :: pstb[s] -> ps[s] = STBY; want[s] = (cl[s] != 0); rdy[s] = 1 \
      :: else -> ps[s] = HELLO \
      fi } \
  /* it sees that a member has closed the connection */ \
  :: d_step { (ps[s] == SERVE || ps[s] == HELLO || ps[s] == TAKE) && FENCED(s) -> superseded(s) } \
  :: d_step { ps[s] == SERVE && cl[s] && !lost[s] && (ans[s] & pv[s]) == pv[s] -> ghost_ack(s); cl[s] = 0; ans[s] = 0 } \
  /* clients */ \
  :: d_step { ps[s] == SERVE && open[s] && !cl[s] && nv <= NW && !quiet -> \
      cl[s] = nv; st[nv] = V_PEND; by[s] = by[s] | (1 << nv); nv++; ans[s] = 0; send(s); printf("side %d: write %d\n", s, cl[s]) } \
  :: d_step { ps[s] == STBY && open[s] && !cl[s] && nv <= NW && !quiet -> \
      cl[s] = nv; st[nv] = V_PEND; by[s] = by[s] | (1 << nv); nv++; want[s] = 1; printf("side %d: write %d at the standby\n", s, cl[s]) } \
  /* a client may open the standby's device before its ticket is satisfied */ \
  :: d_step { !open[s] && (ps[s] == STBY || (ps[s] == SERVE && N == s + 1 && sat[s])) && nv <= NW && !quiet -> open[s] = 1; osb[s] = (ps[s] == STBY); base[s] = nv }

/* ---- agents ---- */

#define REPORT(s) (ps[s] == NONE -> (rec[s] == 0 -> 0 : IENDED) : (ps[s] == STBY -> ISTBY : (ps[s] == SERVE || ps[s] == HELD -> IRUN : ISTART)))
#define REPORT_EPOCH(s) (ps[s] == NONE -> rec[s] : pe[s])
#ifdef PLANT_ACTIVATE_PREPARING
#define MAY_ACTIVATE(s) (mp == READY || mp == PREP)
#else
#define MAY_ACTIVATE(s) (mp == READY && he[s] == gse)
#endif
#ifdef PLANT_TAKE_NOT_RECORDED
#define TAKEN_EPOCH(s) used = used | (1 << gae)
#else
#define TAKEN_EPOCH(s) use_epoch(s, gae)
#endif

inline launch(s) {
  if
  :: des[s] == DEL || aw[s] <= rec[s] || ps[s] != NONE || !((NAMED_A(s) && gae == aw[s]) || (NAMED_S(s) && gse == aw[s])) -> skip /* read again: no longer so */
  :: else ->
    use_epoch(s, aw[s]);
    ps[s] = BOOT; pe[s] = aw[s]; pv[s] = gm; pstb[s] = (gs == s + 1); hold[s] = WANTS_HOLD(s);
    plast[s] = NOBOUND;
#ifndef PLANT_RESTART_KEEPS_SESSION
    if
    :: mp == ROLL && S == s -> plast[s] = mserved
    :: else
    fi;
#endif
    printf("agent %d starts epoch %d (standby %d)\n", s, pe[s], pstb[s])
  fi;
  aw[s] = 0
}

inline take(s) {
  printf("agent %d: epoch.take %d (had %d)\n", s, gae, pe[s]);
#ifdef PLANT_WROTE_LATEST
  plast[s] = he[1 - s] - 1; /* looks only for the epoch that the destination has now */
#else
  plast[s] = mserved;
#endif
  TAKEN_EPOCH(s);
  pe[s] = gae; ps[s] = TAKE; pv[s] = gm; hd[s] = 0; lost[s] = 0; sw[s] = 0;
#ifndef PLANT_NO_RESEND
  ans[s] = 0
#endif
}

inline confirm_activation(s) {
  printf("agent %d: activate.confirm, epoch %d\n", s, gae);
  if
  :: pe[s] != gae -> use_epoch(s, gae); LANDMARK(5)
  :: else
  fi;
  pe[s] = gae; ps[s] = HELLO; plast[s] = NOBOUND;
#ifndef PLANT_STALE_MEMBERS
  pv[s] = gm
#endif
}

/* asked to stop what it never started: the epoch counts as used from now on */
#ifdef PLANT_NO_BURN
#define BURN(s)
#else
#define BURN(s) :: d_step { up[s] && des[s] != RUN && des[s] && ps[s] == NONE && !aw[s] && spe[s] > rec[s] -> use_epoch(s, spe[s]); printf("agent %d: epoch %d is used up unstarted\n", s, spe[s]) }
#endif

#define AGENT(s) \
  :: d_step { up[s] && !aw[s] && ps[s] == NONE && des[s] == RUN && NAMED_A(s) && gae > rec[s] -> aw[s] = gae } \
  :: d_step { up[s] && !aw[s] && ps[s] == NONE && des[s] == RUN && NAMED_S(s) && gse > rec[s] -> aw[s] = gse } \
  :: d_step { up[s] && aw[s] -> launch(s) } \
  :: d_step { up[s] && (est[s] != REPORT(s) || ese[s] != REPORT_EPOCH(s) || hst[s] != hold[s]) && des[s] -> \
      est[s] = REPORT(s); ese[s] = REPORT_EPOCH(s); hst[s] = hold[s] } \
  :: d_step { up[s] && ps[s] != NONE && !pstb[s] && WANTS_HOLD(s) && hold[s] != WANTS_HOLD(s) && gae == pe[s] -> hold[s] = WANTS_HOLD(s) } \
  :: d_step { up[s] && hold[s] && !mp && !gs -> hold[s] = 0 } \
  :: d_step { up[s] && ps[s] == STBY && NAMED_S(s) && gse > pe[s] -> use_epoch(s, gse); pe[s] = gse; printf("agent %d: standby.update %d\n", s, gse) } \
  :: d_step { up[s] && ps[s] == STBY && want[s] && NAMED_S(s) && !ap[s] && MAY_ACTIVATE(s) -> ap[s] = 1 } \
  :: d_step { up[s] && ap[s] -> ap[s] = 0; activate(s) } \
  :: d_step { up[s] && ps[s] == STBY && NAMED_A(s) && gae >= pe[s] -> confirm_activation(s) } \
  :: d_step { up[s] && ps[s] != NONE && ps[s] != STBY && NAMED_A(s) && gae > pe[s] && des[s] == RUN -> take(s) } \
  /* the Grant names it no more, and it is not on hold */ \
  :: d_step { up[s] && ps[s] != NONE && !pstb[s] && !hold[s] && !(NAMED_A(s) && gae >= pe[s]) -> clear_process(s); printf("agent %d: supersede\n", s) } \
  :: d_step { up[s] && ps[s] != NONE && pstb[s] && !NAMED_A(s) && !NAMED_S(s) -> clear_process(s); close_session(s); printf("agent %d: activate.refuse\n", s) } \
  :: d_step { up[s] && des[s] != RUN && (ps[s] != NONE || open[s]) -> printf("agent %d stops epoch %d\n", s, pe[s]); clear_process(s); close_session(s) } \
  BURN(s) \
  :: d_step { up[s] && des[s] == DEL && ps[s] == NONE && !open[s] && !aw[s] -> des[s] = 0; est[s] = 0; ese[s] = 0; hst[s] = 0 } \
  /* a lost member becomes ERR, by the agent of active only */ \
  :: d_step { up[s] && lost[s] && NAMED_A(s) && gae == pe[s] && (pv[s] & ~lost[s]) -> \
      gm = gm & ~lost[s]; pv[s] = pv[s] & ~lost[s]; lost[s] = 0; grant_changed(); printf("agent %d: members now %d\n", s, gm) }

inline activate(s) {
#ifdef PLANT_ACTIVATE_NO_CAS
  if
  :: gs == s + 1 -> swap()
  :: else -> printf("side %d activates all the same\n", s); set_active(s, pe[s]); gs = 0; gse = 0; grant_changed()
  fi
#else
  swap()
#endif
}

/* ---- the attachment controller: writes Volume.spec and the tickets' statuses ---- */

#if SPLIT
#define PLAN(p, k, cond) :: d_step { !p && (cond) -> p = k } :: d_step { p == k -> p = 0;
#else
#define PLAN(p, k, cond) :: d_step { (cond) ->
#endif

#ifdef PLANT_CONFIRM_EARLY
#define MAY_CONFIRM (mp == PREP || mp == READY || mp == ACTV)
#else
#define MAY_CONFIRM (mp == READY || mp == ACTV)
#endif
#ifdef PLANT_SATISFIED_EARLY
#define DEST_OK(n) (mp && S != n && (mig == n + 1 || N == n + 1))
#else
#define DEST_OK(n) ((mp == READY || mp == ACTV || mp == CONF) && S != n && (mig == n + 1 || N == n + 1))
#endif
#define WANT_SAT(n) (tk[n] && ((cur == n + 1 && N == n + 1) || (cur == n + 1 && mp && S == n && N != 0) || DEST_OK(n)))
#define FREE (N == 0 && !cur && !ga && !he[0] && !he[1])
#define NEXT_SIDE (tk[0] && tk[1] && mp -> (mp == ACTV || mp == CONF -> D : S) : (tk[0] -> 0 : 1))
#define NOW (N - 1)
#define OTHER (2 - N)
/* no ticket anywhere, or while preparing none at the source: both fields empty */
#define AC_CLOSE (N && ((!tk[0] && !tk[1]) || (!mp && !mig && !tk[NOW]) || (mp == PREP && mig && !tk[S] && N == S + 1)))
#define AC_START (N && !mp && !mig && tk[0] && tk[1] && cur == N && SERVES(NOW) && nr[0] && nr[1] && !des[OTHER])
#define AC_UNSTART (N && !mp && mig && (tk[0] || tk[1]) && (!tk[0] || !tk[1] || !nr[OTHER]))
#define AC_CONFIRM (N && mp && N == S + 1 && mig && MAY_CONFIRM && tk[D] && (!tk[S] || (!nr[S] && nr[D])))
#define AC_ROLLBACK (N && mp && N == S + 1 && mig && tk[S] && (mp == PREP || mp == READY || mp == ACTV) && \
                     (!tk[D] || (!nr[D] && nr[S]) || (mp == PREP && !nr[S])))

#define ATTACHMENT_CONTROLLER \
  PLAN(acp, 1, AC_CLOSE) N = 0; mig = 0; volume_changed(); printf("AC: the volume leaves its node, phase %d\n", mp) } \
  PLAN(acp, 2, AC_START) mig = OTHER + 1; volume_changed(); printf("AC: move to %d\n", mig - 1) } \
  PLAN(acp, 3, AC_UNSTART) mig = 0; volume_changed() } \
  PLAN(acp, 4, AC_CONFIRM) MECHANISM(rdy[D]); N = D + 1; mig = 0; volume_changed(); printf("AC: confirm, phase %d\n", mp) } \
  PLAN(acp, 5, AC_ROLLBACK) mig = 0; volume_changed(); printf("AC: roll back, phase %d\n", mp) } \
  PLAN(acp, 6, FREE && (tk[0] || tk[1]) && !des[NEXT_SIDE]) N = NEXT_SIDE + 1; volume_changed(); printf("AC: attach to %d\n", N - 1) } \
  :: d_step { WANT_SAT(0) != sat[0] -> sat[0] = WANT_SAT(0); check_sat(0) } \
  :: d_step { WANT_SAT(1) != sat[1] -> sat[1] = WANT_SAT(1); check_sat(1) }

/* The second ticket is acknowledged only when the destination has been ready. */
inline check_sat(n) {
  if
  :: sat[n] -> MECHANISM(rdy[n] || cur == n + 1)
  :: else
  fi
}

/* ---- the volume controller: the record, the Grant, Engine.spec ---- */

#define MOVING (mp == PREP || mp == READY)
#define AS_ASKED (N == S + 1 && mig == D + 1)
#ifdef PLANT_NO_HOLD
#define HOLDS 1
#elif defined(PLANT_HOLD_YES_NO)
#define HOLDS (hst[S] && ese[S] == gae)
#else
#define HOLDS ((hst[S] == gse && ese[S] == gae) || (est[S] == IENDED && ese[S] == gae))
#endif
#ifdef PLANT_ROLLBACK_CONFIRMED
#define MAY_ROLL (mp == PREP || mp == READY || mp == ACTV || (mp == CONF && !nr[D]))
#define ROLL_ASKED ((N == S + 1 && !mig) || mp == CONF)
#else
#define MAY_ROLL (mp == PREP || mp == READY || mp == ACTV)
#define ROLL_ASKED (N == S + 1 && !mig)
#endif
#ifdef PLANT_CLEAN_EARLY
#define CONF_DONE (1)
#define ROLL_DONE (1)
#else
#define CONF_DONE SERVES(D)
#define ROLL_DONE SERVES(S)
#endif
/* A record left over in a detached volume is neither a confirm nor a rollback. */
#ifdef PLANT_LEFTOVER_RECORD
#define ATTACHED 1
#else
#define ATTACHED cur
#endif
#define ACTIVE (ga - 1)
/* who may get the next epoch when the active engine has ended */
#ifdef PLANT_RESTART_SOURCE
#define NEXT_FOR (N - 1)
#else
#define NEXT_FOR ACTIVE
#endif
#define GOES_ON ((!mp && N == ga) || (mp == ACTV && ga == D + 1 && AS_ASKED) || (mp == CONF && ga == D + 1 && N == ga) || \
                 (mp == ROLL && ga == S + 1 && N == ga))

#define VOLUME_CONTROLLER \
  PLAN(vcp, 1, N && !mp && mig && ga == N && cur == N && !gs && !des[OTHER] && nr[OTHER] && inc[NOW] == gai) \
      mp = PREP; ms = N - 1; next_epoch(); gs = D + 1; gse = gep; gsi = inc[D]; he[D] = gep; spe[D] = gep; hi[D] = inc[D]; mserved = gae; \
      rdy[D] = 0; des[D] = RUN; volume_changed(); grant_changed(); printf("VC: preparing, standby epoch %d\n", gse) } \
  PLAN(vcp, 20, mp == PREP && AS_ASKED && gs == D + 1 && est[D] == ISTBY && ese[D] == gse && HOLDS) \
      mp = READY; volume_changed(); printf("VC: ready\n") } \
  PLAN(vcp, 21, MOVING && AS_ASKED && ga == D + 1) mp = ACTV; he[D] = gae; volume_changed(); LANDMARK(6); printf("VC: activated\n") } \
  PLAN(vcp, 2, MOVING && AS_ASKED && gs == D + 1 && nr[D] && PROVEN(D)) \
      mp = PREP; next_epoch(); gse = gep; gsi = inc[D]; he[D] = gep; spe[D] = gep; hi[D] = inc[D]; volume_changed(); grant_changed(); \
      printf("VC: new standby epoch %d\n", gse) } \
  PLAN(vcp, 3, MOVING && AS_ASKED && ga == S + 1 && gs == D + 1 && nr[S] && PROVEN(S)) \
      next_epoch(); set_active(S, gep); he[S] = gep; spe[S] = gep; hi[S] = inc[S]; mserved = gep; next_epoch(); gse = gep; he[D] = gep; spe[D] = gep; \
      volume_changed(); grant_changed(); LANDMARK(7); printf("VC: source goes on in %d, standby %d\n", gae, gse) } \
  PLAN(vcp, 4, ATTACHED && mp && mp != CONF && mp != ROLL && N == D + 1) \
      mp = CONF; volume_changed(); printf("VC: confirming\n"); \
      if \
      :: gs == D + 1 -> swap() \
      :: else \
      fi; he[D] = gae } \
  PLAN(vcp, 5, ATTACHED && MAY_ROLL && ROLL_ASKED) \
      MECHANISM(mp != CONF); roll_back() } \
  PLAN(vcp, 6, ga && GOES_ON && nr[NEXT_FOR] && ((est[ACTIVE] == IENDED && ese[ACTIVE] == gae) || inc[ACTIVE] > gai)) \
      next_epoch(); x = NEXT_FOR; set_active(x, gep); he[x] = gep; spe[x] = gep; hi[x] = inc[x]; des[x] = RUN; volume_changed(); grant_changed(); \
      printf("VC: next epoch %d for side %d\n", gep, x); x = 0 } \
  /* the end of a confirm */ \
  PLAN(vcp, 22, mp == CONF && N == D + 1 && CONF_DONE && des[S] == RUN && TAKEN_UP(S)) MECHANISM(ga != S + 1); des[S] = STOP } \
  PLAN(vcp, 7, mp == CONF && N == D + 1 && CONF_DONE && (PROVEN(S) || !nr[S])) \
      MECHANISM(ga != S + 1); he[S] = 0; des[S] = DEL; cur = D + 1; mp = 0; check_one(D); volume_changed(); grant_changed(); \
      LANDMARK(8); printf("VC: moved\n") } \
  /* the end of a rollback */ \
  PLAN(vcp, 8, mp == ROLL && N == S + 1 && ROLL_DONE) \
      MECHANISM(ga != D + 1); he[D] = 0; des[D] = DEL; mp = 0; check_one(S); volume_changed(); grant_changed(); \
      LANDMARK(9); printf("VC: rolled back\n") } \
  /* close: every holder with its proof */ \
  PLAN(vcp, 24, !N && he[0] && des[0] == RUN && TAKEN_UP(0)) des[0] = STOP } \
  PLAN(vcp, 25, !N && he[1] && des[1] == RUN && TAKEN_UP(1)) des[1] = STOP } \
  PLAN(vcp, 9, !N && he[0] && PROVEN(0)) release(0) } \
  PLAN(vcp, 10, !N && he[1] && PROVEN(1)) release(1) } \
  PLAN(vcp, 11, !N && !he[0] && !he[1] && (cur || ga)) check_closed(); cur = 0; ga = 0; gs = 0; volume_changed(); grant_changed(); \
      if \
      :: tk[0] && tk[1] \
      :: else -> mp = 0 \
      fi; printf("VC: detached\n"); LANDMARK(10) } \
  /* a plain attach; what is left of a move is decided */ \
  PLAN(vcp, 12, N && !cur && !ga && !des[NOW] && nr[NOW]) \
      next_epoch(); x = NOW; set_active(x, gep); he[x] = gep; spe[x] = gep; hi[x] = inc[x]; des[x] = RUN; mp = 0; volume_changed(); grant_changed(); \
      x = 0; printf("VC: opens in epoch %d\n", gep) } \
  PLAN(vcp, 26, N && !cur && ga == N && SERVES(NOW)) cur = N; volume_changed() }

inline roll_back() {
  if
  :: ga == D + 1 -> LANDMARK(11)
  :: else
  fi;
#ifdef PLANT_ROLLBACK_SAME_EPOCH
  ga = S + 1; gae = mserved; gai = inc[S];
#else
  next_epoch(); set_active(S, gep); he[S] = gep; spe[S] = gep; hi[S] = inc[S];
#endif
  gs = 0; gse = 0; gsi = 0; mp = ROLL; N = S + 1;
  volume_changed(); grant_changed();
  printf("VC: rolling back, source epoch %d\n", gae)
}

inline release(n) {
  he[n] = 0; des[n] = DEL;
  if
  :: ga == n + 1 -> ga = 0; gae = 0; gai = 0
  :: else
  fi;
  if
  :: gs == n + 1 -> gs = 0; gse = 0; gsi = 0
  :: else
  fi;
  volume_changed(); grant_changed(); printf("VC: release of side %d is proven\n", n)
}

/* S23: one engine is left, and it is the one that the Grant names. */
inline check_one(n) {
  MECHANISM(ga == n + 1 && cur == n + 1 && N == n + 1 && !gs);
  MECHANISM(GONE(1 - n))
}

/* S12: detached means that no engine is left, whoever the Grant named last. */
inline check_closed() { MECHANISM(GONE(0) && GONE(1)) }

/* ---- faults, people, and their end ---- */

#define FAULTS(s) \
  :: d_step { !quiet && nk < NK && ps[s] != NONE -> nk++; printf("engine process of side %d dies\n", s); clear_process(s) } \
  :: d_step { !quiet && nd < ND && up[s] -> nd++; up[s] = 0; clear_process(s); close_session(s); aw[s] = 0; ap[s] = 0; printf("node %d dies\n", s) } \
  :: d_step { !quiet && !up[s] && nr[s] -> nr[s] = 0 } \
  :: d_step { !quiet && !up[s] -> up[s] = 1; nr[s] = 1; inc[s] = inc[s] + 1; printf("node %d returns\n", s) } \
  :: d_step { !quiet && nn < NN && up[s] && nr[s] -> nn++; nr[s] = 0; printf("node %d is not Ready\n", s) } \
  :: d_step { !quiet && up[s] && !nr[s] -> nr[s] = 1 } \
  :: d_step { !quiet && nt < NT && tk[s] -> nt++; tk[s] = 0; tickets_changed(); printf("ticket %d goes\n", s) } \
  :: d_step { !quiet && nt < NT && !tk[s] -> nt++; tk[s] = 1; tickets_changed(); printf("ticket %d comes\n", s) } \
  :: d_step { !quiet && na < NA && ps[s] == STBY && !want[s] -> na++; want[s] = 1; printf("activation asked\n") }

inline heal() {
  quiet = 1;
  for (i : 0 .. 1) {
    if
    :: !up[i] -> up[i] = 1; inc[i] = inc[i] + 1
    :: else
    fi;
    nr[i] = 1
  }
  printf("no further faults\n")
}

#define WORLD \
  FAULTS(0) \
  FAULTS(1) \
  :: d_step { !quiet && nf < NF && N -> nf++; N = 0; mig = 0; volume_changed(); printf("the volume faults\n") } \
  :: d_step { !quiet -> heal() }

/* L5, L1, L3: what rests without faults is an end. */
#define AT_REST(n) (N == n + 1 && cur == N && ga == N && ps[n] == SERVE && pe[n] == gae)
inline check_end() {
#ifndef SAFETY_ONLY
  printf("end: tickets %d %d, node %d, current %d, phase %d, Grant %d/%d standby %d/%d, processes %d/%d %d/%d, desired %d %d, unproven %d %d\n",
         tk[0], tk[1], N, cur, mp, ga, gae, gs, gse, ps[0], pe[0], ps[1], pe[1], des[0], des[1], he[0], he[1]);
  if
  :: !tk[0] && !tk[1] -> assert(!N && !cur && !mp && !ga && !gs && ps[0] == NONE && ps[1] == NONE && !des[0] && !des[1])
  :: tk[0] && !tk[1] -> assert(!mp && !mig && AT_REST(0) && ps[1] == NONE && !des[1] && sat[0] && !cl[0])
  :: !tk[0] && tk[1] -> assert(!mp && !mig && AT_REST(1) && ps[0] == NONE && !des[0] && sat[1] && !cl[1])
  :: else -> assert(N && cur == N && sat[0] && sat[1] && ((mp == READY && ps[S] == SERVE && pe[S] == gae && ps[D] == STBY && pe[D] == gse && !cl[S]) ||
                    (mp == ACTV && ga == D + 1 && ps[D] == SERVE && pe[D] == gae && !cl[D])))
  fi
#endif
  skip
}
